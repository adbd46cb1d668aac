"""Texts to learned sparse vectors (SPLADE and its kin): one weight a word of the model's own.

Formal, Lassance, Piwowarski and Clinchant: SPLADE v2 (2021): the weight of a word is the maximum,
over the tokens of the text, of log(1 + relu(logit of the word)) by a masked language model. How a
model really pools stands in its own files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.cache_fill import Progress, Values, objects
from rag_assets.models.encoder import Kind, TextEncoder
from rag_assets.models.model_files import json_object, modules_of
from rag_assets.models.vector_cache import SPARSE_VECTORS, SparseVector

SPARSE_MODULES = ("SpladePooling", "SparseAutoEncoder", "SparseStaticEmbedding", "Router")


class SparseTextEncoder(TextEncoder):
    """A sparse model, its prompts and its cache."""

    stored = SPARSE_VECTORS
    batch_size = 8  # a masked language model gives a number for each token and word

    def __init__(self, model: str, **options: Any) -> None:  # noqa: ANN401
        """Resolve the model's files, with the options of :class:`TextEncoder`.

        Raises:
            ModelUnavailable: they cannot be had, or the model makes no sparse vectors: its sparse
                part would be made of random weights when it is loaded.
        """
        super().__init__(model, **options)
        folder = self.files.path
        types = [str(part.get("type", "")).rpartition(".")[2] for part in modules_of(folder)]
        named = json_object(folder / "config.json").get("architectures") or []
        is_masked = not types and any(str(name).endswith("ForMaskedLM") for name in named)
        if not is_masked and not any(name in SPARSE_MODULES for name in types):
            raise ModelUnavailable(
                f"model '{self.files.name}' makes no sparse vectors: it has neither a module of "
                f"{', '.join(SPARSE_MODULES[:-1])}, nor is it a plain masked language model"
            )

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vector of a text, without loading the model."""
        return {**super().describe(kind), "vectors": "sparse"}

    def encode(
        self, texts: Sequence[str], *, kind: Kind, progress: Progress | None = None
    ) -> dict[str, SparseVector]:
        """Return text -> its vector; arguments and errors are those of :meth:`values`."""
        return dict(zip(texts, self.values(texts, kind, progress), strict=True))

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> Values:
        """Return the vectors of texts past the cache."""
        tensors = self.by_library(
            texts, kind, "SparseEncoder", convert_to_tensor=False, save_to_cpu=True
        )
        return objects([self._vector(*pair, kind) for pair in zip(tensors, texts, strict=True)])

    def _vector(self, tensor: Any, text: str, kind: Kind) -> SparseVector:  # noqa: ANN401 (torch)
        """Return a sparse tensor of one dimension without its zeros."""
        whole = tensor.coalesce()
        components = whole.indices()[0].numpy().astype(np.int32)
        weights = whole.values().float().numpy()
        if not np.isfinite(weights).all():
            problem = f"the vector of the {kind} {text[:80]!r} by {self.files.name}"
            raise DataError(f"{problem} holds NaN or infinity")
        present = np.flatnonzero(weights)
        return SparseVector(components[present], weights[present])
