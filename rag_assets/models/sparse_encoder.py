"""Texts to learned sparse vectors (SPLADE and its kin): one weight a word of the model's own.

Formal, Lassance, Piwowarski and Clinchant: SPLADE v2 (2021): the weight of a word is the maximum,
over the tokens of the text, of log(1 + relu(logit of the word)) by a masked language model. How a
model really pools stands in its own files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.batches import batch_lengths, encode_unknown, in_batches
from rag_assets.models.encoder import Encoder, Kind, Progress
from rag_assets.models.loading import is_loaded, load_sparse_model
from rag_assets.models.model_files import ModelFiles, modules_of, read_json
from rag_assets.models.quiet import quiet_models
from rag_assets.store.canonical import fingerprint
from rag_assets.store.vector_caches import SparseVector, SparseVectorCache

BATCH_SIZE = 8
"""Texts at once: a masked language model gives a number for each token and word."""

BATCHES_PER_GROUP = 16
SPARSE_MODULES = ("SpladePooling", "SparseAutoEncoder", "SparseStaticEmbedding", "Router")


class SparseTextEncoder:
    """A sparse model, its prompts and its cache; it is loaded for the first unknown text."""

    def __init__(
        self,
        model: str,
        *,
        cache: Path | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        compute: Compute = LOCAL,
        counted: Path | None = None,
    ) -> None:
        """Resolve the model's files; nothing is loaded.

        Args:
            model: name or folder, see ``resolve_model``.
            cache: folder of the cache; None remembers nothing.
            query_prompt: put before every query; None takes the model's own, empty takes none.
            document_prompt: the same for documents.
            compute: where new texts are encoded.
            counted: folder of the numbers of tokens that are known; None remembers none.

        Raises:
            ModelUnavailable: the model's files cannot be had, or it makes no sparse vectors.
        """
        self._plain = Encoder(
            model, query_prompt=query_prompt, document_prompt=document_prompt, normalise=False
        )
        self._cache = cache
        self._compute = compute
        self._counted = counted
        _check_sparse(self.files)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker on another machine needs: neither cache nor workers of its own."""
        return {**vars(self), "_cache": None, "_counted": None, "_compute": LOCAL}

    @property
    def files(self) -> ModelFiles:
        """The model's files."""
        return self._plain.files

    def prompt(self, kind: Kind) -> str:
        """Return what is put before a text of this kind."""
        return self._plain.prompt(kind)

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vector of a text, without loading the model."""
        own = read_json(self.files.path / "config_sentence_transformers.json")
        declared = own.get("max_active_dims") if isinstance(own, Mapping) else None
        described = self._plain.describe(kind)
        return {**described, "pooling": "sparse", "max_active_dims": declared}

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return is_loaded(self.files)

    def encode(
        self, texts: Sequence[str], *, kind: Kind, progress: Progress | None = None
    ) -> list[SparseVector]:
        """Return one vector a text; equal texts are encoded once.

        Args:
            texts: may be empty strings, and may repeat.
            kind: which prompt, and which part of a model with two parts.
            progress: called with (texts encoded, texts to encode); not at all when none is new.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives NaN or infinity for a text.
        """
        found = encode_unknown(
            texts,
            partial(self.encode_now, kind=kind),
            lengths=partial(
                batch_lengths,
                files=self.files,
                batch_size=BATCH_SIZE,
                prompt=self.prompt(kind),
                counted=self._counted,
            ),
            prompt=self.prompt(kind),
            cache=self._opened(kind),
            compute=self._compute,
            group_size=BATCH_SIZE * BATCHES_PER_GROUP,
            progress=progress,
        )
        return [found[text] for text in texts]

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> list[SparseVector]:
        """Return the vectors of texts past the cache, which is neither read nor written.

        Texts of even length should stand together: batches are cut in their order.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives NaN or infinity for a text.
        """
        model = load_sparse_model(self.files)
        encode = model.encode_query if kind == "query" else model.encode_document
        with quiet_models():
            found = [
                one
                for batch in in_batches(texts, BATCH_SIZE)
                for one in encode(
                    batch,
                    prompt=self.prompt(kind),
                    batch_size=BATCH_SIZE,
                    show_progress_bar=False,
                    convert_to_tensor=False,
                    save_to_cpu=True,
                )
            ]
        return [self._vector(one, text, kind) for one, text in zip(found, texts, strict=True)]

    def _vector(self, tensor: Any, text: str, kind: Kind) -> SparseVector:  # noqa: ANN401 (torch)
        """Return a sparse tensor of one dimension without its zeros."""
        whole = tensor.coalesce()
        components = whole.indices()[0].numpy().astype(np.int32)
        weights = whole.values().float().numpy()
        if not np.isfinite(weights).all():
            problem = f"the vector of the {kind} {text[:80]!r} by {self.files.name}"
            raise DataError(f"{problem} holds NaN or infinity")
        kept = np.flatnonzero(weights)
        return SparseVector(components[kept], weights[kept])

    def _opened(self, kind: Kind) -> SparseVectorCache | None:
        if self._cache is None:
            return None
        described = {name: v for name, v in self.describe(kind).items() if name != "prompt"}
        described["code"] = filled_by(root_of(SparseTextEncoder, "encode"))
        return SparseVectorCache(self._cache, fingerprint(described))


def _check_sparse(files: ModelFiles) -> None:
    """Refuse a model whose sparse part would be made of random weights when it is loaded."""
    types = [str(part.get("type", "")).rpartition(".")[2] for part in modules_of(files.path)]
    if types:
        is_sparse = any(name in SPARSE_MODULES for name in types)
    else:
        config = read_json(files.path / "config.json")
        named = config.get("architectures") if isinstance(config, Mapping) else None
        is_sparse = any(str(name).endswith("ForMaskedLM") for name in named or [])
    if not is_sparse:
        raise ModelUnavailable(
            f"model '{files.name}' makes no sparse vectors: it has neither a module of "
            f"{', '.join(SPARSE_MODULES[:-1])}, nor is it a plain masked language model"
        )
