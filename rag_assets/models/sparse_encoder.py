"""Texts to learned sparse vectors (SPLADE and its kin): one weight a word of the model's own.

Formal, Lassance, Piwowarski and Clinchant: SPLADE v2 (2021): the weight of a word is the maximum,
over the tokens of the text, of log(1 + relu(logit of the word)) by a masked language model. How a
model really pools stands in its own files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.batches import in_batches
from rag_assets.models.cached_encoder import CachedEncoder
from rag_assets.models.encoder import Kind
from rag_assets.models.loading import load_sparse_model, quiet_models
from rag_assets.models.model_files import modules_of, read_json
from rag_assets.models.vector_cache import SPARSE_VECTORS, SparseVector

SPARSE_MODULES = ("SpladePooling", "SparseAutoEncoder", "SparseStaticEmbedding", "Router")


class SparseTextEncoder(CachedEncoder[SparseVector]):
    """A sparse model, its prompts and its cache; it is loaded for the first unknown text."""

    stored = SPARSE_VECTORS
    batch_size = 8  # a masked language model gives a number for each token and word
    group_size = 16 * batch_size
    normalise = False

    def check_model(self) -> None:
        """Refuse a model whose sparse part would be made of random weights when it is loaded.

        Raises:
            ModelUnavailable: it makes no sparse vectors.
        """
        files = self.files
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

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vector of a text, without loading the model."""
        own = read_json(self.files.path / "config_sentence_transformers.json")
        declared = own.get("max_active_dims") if isinstance(own, Mapping) else None
        return {**super().describe(kind), "pooling": "sparse", "max_active_dims": declared}

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> list[SparseVector]:
        """Return the vectors of texts past the cache.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives NaN or infinity for a text.
        """
        model = load_sparse_model(self.files)
        encode = model.encode_query if kind == "query" else model.encode_document
        with quiet_models():
            found = [
                one
                for batch in in_batches(texts, self.batch_size)
                for one in encode(
                    batch,
                    prompt=self.prompt(kind),
                    batch_size=self.batch_size,
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
