"""Texts to learned sparse vectors, and to one vector a token; and the score of two texts by these.

Learned sparse vectors (SPLADE and its kin) have one weight a word of the model's own. Formal,
Lassance, Piwowarski and Clinchant: SPLADE v2 (2021): the weight of a word is the maximum, over the
tokens of the text, of log(1 + relu(logit of the word)) by a masked language model. How a model
really pools stands in its own files.

sentence-transformers loads its own models of several vectors (ColBERT and its kin), those of PyLate
and those of Stanford's ColBERT as ``MultiVectorEncoder``, with all that they were trained with: the
markers before queries and documents, the padding of queries that is scored too, the words that are
not, and the projection. They are told apart by their own files.

Late interaction of two texts (MaxSim, Khattab and Zaharia: ColBERT, SIGIR 2020): every token of the
query takes its best of the document. The score here is the mean, over the query tokens, of that
highest cosine, so that scores of queries of different lengths have the same range; of one query, it
orders documents as the sum does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.cache_fill import (
    SPARSE_VECTORS,
    TOKEN_VECTORS,
    Progress,
    SparseVector,
    TokenVectors,
    Values,
    objects,
)
from rag_assets.models.encoder import Kind, TextEncoder
from rag_assets.models.loading import load_model, quiet_models
from rag_assets.models.model_files import json_object, kept_while_unchanged, modules_of
from rag_assets.models.token_counts import in_batches

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


_TYPES = ("MultiVectorEncoder", "ColBERT")

_MARKERS = ("query_prefix", "document_prefix", "query_length", "do_query_expansion")
"""What PyLate has in its configuration, also where it names no type."""

NOTHING = -1.0
"""The score of a query or document without a token: below every other."""


class TokenEncoder(TextEncoder):
    """A model, its prompts, and a cache of token vectors in half precision.

    A prompt that is given to a model such as ColBERT replaces the model's own, its marker included.
    """

    stored = TOKEN_VECTORS

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vectors of a text, without loading the model."""
        described = {**super().describe(kind), "vectors": "tokens, float16"}
        return {**described, "task": kind} if is_multi_vector(self.files.path) else described

    def encode(
        self, texts: Sequence[str], *, kind: Kind, progress: Progress | None = None
    ) -> dict[str, TokenVectors]:
        """Return text -> its vectors; arguments and errors are those of :meth:`values`."""
        return dict(zip(texts, self.values(texts, kind, progress), strict=True))

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> Values:
        """Return the token vectors of texts past the cache, each of length 1.

        Returns:
            float16, shape (tokens, dimension) for each text; a text without token has none. The
            maximum length of the model counts; what is beyond it has no vectors.
        """
        if is_multi_vector(self.files.path):
            vectors = self.by_library(
                texts,
                kind,
                "MultiVectorEncoder",
                prompt=self.prompts[kind],
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
            return objects([tokens.astype(np.float16) for tokens in vectors])
        model, prompt = load_model(self.files, self._device), self.prompt(kind)
        with quiet_models():
            batches = in_batches([prompt + text for text in texts], self.batch_size)
            return objects([tokens for batch in batches for tokens in _token_vectors(model, batch)])


def _token_vectors(model: Any, batch: list[str]) -> list[TokenVectors]:  # noqa: ANN401 (torch)
    """Return the unit vectors of all tokens of each text that are no special tokens."""
    import torch

    features = model.preprocess(batch)
    on_device = {n: v.to(model.device) if torch.is_tensor(v) else v for n, v in features.items()}
    with torch.inference_mode():
        output = model.forward(on_device)
        unit = torch.nn.functional.normalize(output["token_embeddings"].float(), dim=-1)
    special = torch.tensor(model.tokenizer.all_special_ids, device=model.device)
    is_word = on_device["attention_mask"].bool() & ~torch.isin(on_device["input_ids"], special)
    rows = unit.cpu().numpy().astype(np.float16)
    return [vectors[mask] for vectors, mask in zip(rows, is_word.cpu().numpy(), strict=True)]


@kept_while_unchanged
def is_multi_vector(folder: Path) -> bool:
    """Return whether a model folder holds such a model.

    Raises:
        ModelUnavailable: a file of its configuration is damaged.
    """
    config = json_object(folder / "config_sentence_transformers.json")
    if config.get("model_type") in _TYPES or any(name in config for name in _MARKERS):
        return True
    if any("MultiVector" in str(part.get("type", "")) for part in modules_of(folder)):
        return True
    return "HF_ColBERT" in (json_object(folder / "config.json").get("architectures") or [])


def maxsim(query: TokenVectors, document: TokenVectors) -> float:
    """Return the mean over query tokens of the highest cosine with a document token.

    Args:
        query: unit vectors, shape (query tokens, dimension).
        document: unit vectors, shape (document tokens, dimension).
    """
    if not len(query) or not len(document):
        return NOTHING
    cosines = query.astype(np.float32) @ document.astype(np.float32).T
    return float(cosines.max(axis=1).astype(np.float64).mean())
