"""Texts to vectors by a bi-encoder; a text that was embedded before is looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rag_assets.compute.compute import Compute
from rag_assets.compute.local import LOCAL
from rag_assets.embedding.cache_writer import CacheWriter
from rag_assets.embedding.loading import is_loaded, load_model
from rag_assets.embedding.model_config import (
    config_sha256,
    declared_max_seq_length,
    declared_pooling,
    declared_prompt,
    has_tasks,
)
from rag_assets.embedding.model_files import ModelFiles
from rag_assets.embedding.models import DEFAULT_MODEL, resolve_model
from rag_assets.embedding.precision import Precision
from rag_assets.embedding.quiet import quiet_models
from rag_assets.embedding.sent_model import SentModel
from rag_assets.embedding.similarity_search import checked_lengths
from rag_assets.embedding.unit_vectors import Vectors, to_unit_rows
from rag_assets.store.canonical import fingerprint
from rag_assets.store.vector_cache import VectorCache

Kind = Literal["query", "document"]
Progress = Callable[[int, int], None]

BATCH_SIZE = 16
BATCHES_PER_GROUP = 8


class Encoder:
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

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        self.files: ModelFiles = resolve_model(model)
        self._cache = cache
        self._normalise = normalise
        self._batch_size = batch_size
        self._device = device
        self._precision: Precision = precision
        self._compute = compute
        self._prompts: dict[Kind, str | None] = {"query": query_prompt, "document": document_prompt}

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker on another machine needs: neither cache nor workers of its own."""
        sent = {"files": SentModel.of(self.files), "_cache": None, "_compute": LOCAL}
        return {**vars(self), **sent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the model's files from this machine.

        Raises:
            ModelUnavailable: it has no such model, or another one of the name.
        """
        vars(self).update({**state, "files": state["files"].found(resolve_model)})

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
        self, texts: Sequence[str], *, kind: Kind, progress: Progress | None = None
    ) -> Vectors:
        """Return one vector for each text, of length 1 unless the model's own are wanted.

        Equal texts are embedded once; new ones are cached every 2,000 texts or 60 seconds.

        Args:
            texts: may be empty strings, and may repeat.
            kind: which prompt, and which part of a model with two parts.
            progress: called with (texts embedded, texts to embed); not at all when none is new.

        Returns:
            float32, shape (len(texts), dimension); shape (0, 0) for no texts.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives NaN for a text, or length 0 where it must be 1.
        """
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        rows: dict[str, int] = {}
        row_of_text = [rows.setdefault(text, len(rows)) for text in texts]
        unique = list(rows)
        if self._cache is None:
            return self._embed(unique, kind, None, progress, self._compute)[row_of_text]
        described = self.describe(kind)
        cache = VectorCache(self._cache, fingerprint(described))
        keys = [described["prompt"] + text for text in unique]
        vectors, found = cache.get(keys)
        if not found.all():
            missing = np.flatnonzero(~found)
            texts = [unique[row] for row in missing]
            new = self._embed(texts, kind, cache, progress, self._compute)
            if not found.any():
                vectors = np.empty((len(unique), new.shape[1]), dtype=np.float32)
            # Where another process embedded the same text first, its vector is the one that stays.
            stored, is_stored = cache.get([keys[row] for row in missing])
            new[is_stored] = stored[is_stored]
            vectors[missing] = new
        return vectors[row_of_text]

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
        return self._embed(list(texts), kind, None, None, LOCAL)

    def _embed(
        self,
        texts: list[str],
        kind: Kind,
        cache: VectorCache | None,
        progress: Progress | None,
        compute: Compute,
    ) -> Vectors:
        """Embed texts, longest first, so that the texts of a batch are of even length."""
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        prompt, size = self.prompt(kind), self._batch_size * BATCHES_PER_GROUP
        groups = [order[start : start + size] for start in range(0, len(order), size)]
        blocks = (([texts[row] for row in group],) for group in groups)
        vectors, n_done = np.empty((0, 0), dtype=np.float32), 0
        with CacheWriter(cache) as writer:
            for number, part in compute.map(partial(self._embed_group, kind=kind), blocks):
                group = groups[number]
                if not n_done:
                    vectors = np.empty((len(texts), part.shape[1]), dtype=np.float32)
                vectors[group] = part
                writer.add([prompt + texts[row] for row in group], part)
                n_done += len(group)
                if progress is not None:
                    progress(n_done, len(order))
        return vectors

    def _embed_group(self, texts: list[str], kind: Kind) -> Vectors:
        model = load_model(self.files, self._device, self._precision)
        encode = model.encode_query if kind == "query" else model.encode_document
        with quiet_models():
            raw = encode(
                texts,
                prompt=self.prompt(kind),
                batch_size=self._batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
            )

        def name_of(row: int) -> str:
            return f"the {kind} {texts[row][:80]!r} by {self.files.name}"

        if self._normalise:
            return to_unit_rows(np.asarray(raw), name_of)
        own = np.asarray(raw, dtype=np.float32)
        checked_lengths(own, name_of)
        return own
