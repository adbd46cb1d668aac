"""Texts to vectors by a bi-encoder; a text that was embedded before is looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.models.batches import FLUSH_TEXTS, CacheWriter, batch_lengths, fills_up, in_batches
from rag_assets.models.loading import Precision, is_loaded, load_model, quiet_models
from rag_assets.models.model_files import (
    ModelFiles,
    config_sha256,
    declared_max_seq_length,
    declared_pooling,
    declared_prompt,
    has_tasks,
)
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.pickled_by_reference import ModelByHash
from rag_assets.models.unit_vectors import Vectors, checked_lengths, to_unit_rows
from rag_assets.models.vector_cache import MakeVectors, VectorCache
from rag_assets.store.canonical import fingerprint

Kind = Literal["query", "document"]
Progress = Callable[[int, int], None]
Rows = npt.NDArray[np.int64]

BATCH_SIZE = 16
BATCHES_PER_GROUP = 8


class Encoder(ModelByHash):
    """A model, its prompts and its cache; the model is loaded for the first unknown text."""

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        cache: Path | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        normalise: bool = True,
        batch_size: int = BATCH_SIZE,
        device: str | None = None,
        precision: Precision = "float32",
        compute: Compute = LOCAL,
        counted: Path | None = None,
    ) -> None:
        """Resolve the model's files; nothing is loaded.

        Args:
            model: name or folder, see ``resolve_model``.
            cache: folder of the vector cache; None remembers nothing.
            query_prompt: put before every query; None takes the model's own, empty takes none.
            document_prompt: the same for documents.
            normalise: whether vectors are brought to length 1; else they are the model's own.
            batch_size: texts that are embedded at once; changes vectors by rounding only.
            device: ``cpu`` or ``cuda``; None takes CUDA where there is one.
            precision: in which the model computes; its vectors are made fp32, and of length 1, in
                fp32.
            compute: where new texts are embedded; equal but for rounding.
            counted: folder of the numbers of tokens that are known; None remembers none.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        self.files = self._resolve(model)
        self._cache = cache
        self._normalise = normalise
        self._batch_size = batch_size
        self._device = device
        self._precision: Precision = precision
        self._compute = compute
        self._counted = counted
        self._prompts: dict[Kind, str | None] = {"query": query_prompt, "document": document_prompt}

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker on another machine needs: neither cache nor workers of its own."""
        return {**super().__getstate__(), "_cache": None, "_counted": None, "_compute": LOCAL}

    def _resolve(self, name: str) -> ModelFiles:
        return resolve_model(name)

    def prompt(self, kind: Kind) -> str:
        """Return what is put before a text of this kind."""
        given = self._prompts[kind]
        return declared_prompt(self.files.path, kind) if given is None else given

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vector of a text, without loading the model.

        Versions of the libraries, the batch size and the device are not in it: between them a
        vector differs by the rounding of the precision only.
        """
        folder = self.files.path
        return {
            "weights_sha256": self.files.weights_sha256,
            "tokenizer_sha256": self.files.tokenizer_sha256,
            "config_sha256": config_sha256(folder),
            "prompt": self.prompt(kind),
            "task": kind if has_tasks(folder) else None,
            "max_seq_length": declared_max_seq_length(folder),
            "pooling": declared_pooling(folder),
            "normalisation": "l2" if self._normalise else "none",
            "precision": self._precision,
            "backend": "torch",
        }

    def encode(
        self,
        texts: Sequence[str],
        *,
        kind: Kind,
        progress: Progress | None = None,
        make: MakeVectors = np.zeros,
    ) -> Vectors:
        """Return one vector for each text, of length 1 unless the model's own are wanted.

        Equal texts are embedded once; new ones are cached every 2,000 texts or 60 seconds. The
        vectors are written where they stay, so that they are in memory once at most.

        Args:
            texts: may be empty strings, and may repeat.
            kind: which prompt, and which part of a model with two parts.
            progress: called with (texts embedded, texts to embed); not at all when none is new.
            make: gives the array of a shape that receives the vectors; it may lie on disk.

        Returns:
            float32, shape (len(texts), dimension); shape (0, 0) for no texts.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives NaN for a text, or length 0 where it must be 1.
        """
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        if self._cache is None:
            return self._embed_all(texts, kind, progress, make, self._compute)
        described = self.describe(kind)
        cache = VectorCache(self._cache, space_of(described))
        vectors, found = cache.get([described["prompt"] + text for text in texts], make)
        if found.all():
            return vectors
        missing = np.flatnonzero(~found)
        return self._embed(texts, missing, vectors, kind, cache, progress, make, self._compute)

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory: a text was embedded, and not only looked up."""
        return is_loaded(self.files, self._device, self._precision)

    def embed_now(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """Return the vectors of texts past the cache, which is neither read nor written.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives NaN for a text, or length 0 where it must be 1.
        """
        return self._embed_all(texts, kind, None, np.zeros, LOCAL)

    def _embed_all(
        self,
        texts: Sequence[str],
        kind: Kind,
        progress: Progress | None,
        make: MakeVectors,
        compute: Compute,
    ) -> Vectors:
        rows = np.arange(len(texts))
        nothing = np.empty((len(texts), 0), dtype=np.float32)
        return self._embed(texts, rows, nothing, kind, None, progress, make, compute)

    def _embed(
        self,
        texts: Sequence[str],
        missing: Rows,
        vectors: Vectors,
        kind: Kind,
        cache: VectorCache | None,
        progress: Progress | None,
        make: MakeVectors,
        compute: Compute,
    ) -> Vectors:
        """Embed the texts that are missing into ``vectors``, longest first.

        ``vectors`` of dimension 0 are made anew as soon as the dimension is known.
        """
        first: dict[str, int] = {}
        sources = np.array([first.setdefault(texts[row], row) for row in missing.tolist()])
        unique = np.array(list(first.values()))
        prompt, size = self.prompt(kind), self._batch_size * BATCHES_PER_GROUP
        new = [texts[row] for row in unique]
        lengths = batch_lengths(new, self.files, self._batch_size, prompt, self._counted)
        order = unique[np.argsort(-lengths, kind="stable")]
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        blocks = (([texts[row] for row in rows],) for rows in groups)
        n_done = 0
        with CacheWriter(cache) as writer:
            for number, part in compute.map(partial(self._embed_group, kind=kind), blocks):
                rows = groups[number]
                if not vectors.shape[1]:
                    vectors = make((len(texts), part.shape[1]), dtype=np.float32)
                vectors[rows] = part
                writer.add([prompt + texts[row] for row in rows], part)
                n_done += len(rows)
                if progress is not None:
                    progress(n_done, len(order))
        if cache is not None:
            _take_stored(cache, texts, order, prompt, vectors)
        again = sources != missing
        vectors[missing[again]] = vectors[sources[again]]
        return vectors

    def _embed_group(self, texts: list[str], kind: Kind) -> Vectors:
        model = load_model(self.files, self._device, self._precision)
        encode = model.encode_query if kind == "query" else model.encode_document
        size = self._batch_size if fills_up(self.files) else max(len(texts), 1)
        with quiet_models():
            parts = [
                encode(
                    batch,
                    prompt=self.prompt(kind),
                    batch_size=self._batch_size,
                    show_progress_bar=False,
                    convert_to_numpy=True,
                )
                for batch in in_batches(texts, size)
            ]
        raw = np.concatenate(parts)

        def name_of(row: int) -> str:
            return f"the {kind} {texts[row][:80]!r} by {self.files.name}"

        if self._normalise:
            return to_unit_rows(raw, name_of)
        own = np.asarray(raw, dtype=np.float32)
        checked_lengths(own, name_of)
        return own


def space_of(described: Mapping[str, Any]) -> str:
    """Return the space of the vectors that an encoder computes now."""
    return fingerprint({**described, "code": filled_by(root_of(Encoder, "_embed"))})


def _take_stored(
    cache: VectorCache, texts: Sequence[str], rows: Rows, prompt: str, vectors: Vectors
) -> None:
    """Put the vectors of the cache into these rows of ``vectors``.

    Where another process embedded the same text first, its vector is the one that stays.
    """
    for start in range(0, len(rows), FLUSH_TEXTS):
        some = rows[start : start + FLUSH_TEXTS]
        stored, is_stored = cache.get([prompt + texts[row] for row in some])
        vectors[some[is_stored]] = stored[is_stored]
