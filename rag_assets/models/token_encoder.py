"""One vector a token: the encoder, the models that were trained for it, and the score of two texts.

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

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.models.batches import in_batches
from rag_assets.models.cached_encoder import CachedEncoder
from rag_assets.models.encoder import BATCH_SIZE, BATCHES_PER_GROUP, Kind
from rag_assets.models.loading import load_model, load_multi_vector_model, quiet_models
from rag_assets.models.model_files import (
    kept_while_unchanged,
    modules_of,
    read_json,
    sha256,
)
from rag_assets.models.vector_cache import TOKEN_VECTORS, TokenVectors

_TYPES = ("MultiVectorEncoder", "ColBERT")


_MARKERS = ("query_prefix", "document_prefix", "query_length", "do_query_expansion")
"""What PyLate has in its configuration, also where it names no type."""


_CONFIGS = ("config_sentence_transformers.json", "artifact.metadata")


NOTHING = -1.0
"""The score of a query or document without a token: below every other."""


class TokenEncoder(CachedEncoder[TokenVectors]):
    """A model, its prompts, and a cache of token vectors in half precision.

    A prompt that is given to a model such as ColBERT replaces the model's own, its marker included.
    """

    stored = TOKEN_VECTORS
    batch_size = BATCH_SIZE
    group_size = BATCHES_PER_GROUP * BATCH_SIZE
    normalise = True

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vectors of a text, without loading the model."""
        described = {**super().describe(kind), "pooling": "none", "stored": "float16"}
        if not is_multi_vector(self.files.path):
            return {**described, "special_tokens": "dropped"}
        own = interaction_sha256(self.files.path)
        return {**described, "task": kind, "special_tokens": "as the model does", "read_as": own}

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> list[TokenVectors]:
        """Return the token vectors of texts past the cache, each of length 1.

        Returns:
            float16, shape (tokens, dimension) for each text; a text without token has none. The
            maximum length of the model counts; what is beyond it has no vectors.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        if is_multi_vector(self.files.path):
            return self._embed_as_trained(texts, kind)
        model, prompt = load_model(self.files), self.prompt(kind)
        vectors: list[TokenVectors] = []
        with quiet_models():
            for batch in in_batches(texts, self.batch_size):
                vectors += _token_vectors(model, [prompt + text for text in batch])
        return vectors

    def _embed_as_trained(self, texts: Sequence[str], kind: Kind) -> list[TokenVectors]:
        model = load_multi_vector_model(self.files)
        encode = model.encode_query if kind == "query" else model.encode_document
        with quiet_models():
            found = [
                own
                for batch in in_batches(texts, self.batch_size)
                for own in encode(
                    batch,
                    prompt=self.prompts[kind],
                    batch_size=self.batch_size,
                    show_progress_bar=False,
                    convert_to_numpy=True,
                    normalize_embeddings=True,
                )
            ]
        return [own.astype(np.float16) for own in found]


def _token_vectors(model: Any, batch: list[str]) -> list[TokenVectors]:  # noqa: ANN401 (torch)
    """Return the unit vectors of all tokens of each text that are no special tokens."""
    import torch

    features = model.preprocess(batch)
    on_device = {n: v.to(model.device) if torch.is_tensor(v) else v for n, v in features.items()}
    with torch.inference_mode():
        output = model.forward(on_device)
        unit = torch.nn.functional.normalize(output["token_embeddings"].float(), dim=-1)
    special = torch.tensor(model.tokenizer.all_special_ids, device=model.device)
    real = on_device["attention_mask"].bool() & ~torch.isin(on_device["input_ids"], special)
    rows = unit.cpu().numpy().astype(np.float16)
    return [own[keep] for own, keep in zip(rows, real.cpu().numpy(), strict=True)]


@kept_while_unchanged
def is_multi_vector(folder: Path) -> bool:
    """Return whether a model folder holds such a model.

    Raises:
        ModelUnavailable: a file of its configuration is damaged.
    """
    own = _mapping(folder / "config_sentence_transformers.json")
    if own.get("model_type") in _TYPES or any(name in own for name in _MARKERS):
        return True
    if any("MultiVector" in str(part.get("type", "")) for part in modules_of(folder)):
        return True
    return "HF_ColBERT" in (_mapping(folder / "config.json").get("architectures") or [])


def interaction_sha256(folder: Path) -> Mapping[str, str]:
    """Return the hashes of the files that say how queries and documents are read."""
    return {name: sha256(folder / name) for name in _CONFIGS if (folder / name).is_file()}


def _mapping(file: Path) -> Mapping[str, Any]:
    content = read_json(file)
    return content if isinstance(content, Mapping) else {}


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
