"""Texts to one unit vector a token, by any bi-encoder or by a model that was trained for it.

Of a bi-encoder all tokens count but its special ones. A model such as ColBERT says itself which
tokens count, and how queries and documents are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.models.batches import batch_lengths, in_batches
from rag_assets.models.encode_unknown import encode_unknown
from rag_assets.models.encoder import BATCH_SIZE, BATCHES_PER_GROUP, Encoder, Kind, Progress
from rag_assets.models.loading import load_model, load_multi_vector_model
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.multi_vector import interaction_sha256, is_multi_vector
from rag_assets.models.quiet import quiet_models
from rag_assets.store.canonical import fingerprint
from rag_assets.store.token_vector_cache import TokenVectorCache, TokenVectors


class TokenEncoder:
    """A model, its prompts, and a cache of token vectors in half precision."""

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
            cache: folder of the token vector cache; None remembers nothing.
            query_prompt: put before every query; None takes the model's own. Given to a model such
                as ColBERT, it replaces the model's own, its marker included.
            document_prompt: the same for documents.
            compute: where new texts are encoded.
            counted: folder of the numbers of tokens that are known; None remembers none.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        self._encoder = Encoder(model, query_prompt=query_prompt, document_prompt=document_prompt)
        self._given = {"query": query_prompt, "document": document_prompt}
        self._is_multi_vector = is_multi_vector(self._encoder.files.path)
        self._cache = cache
        self._compute = compute
        self._counted = counted

    @property
    def files(self) -> ModelFiles:
        """The model's files."""
        return self._encoder.files

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker on another machine needs: neither cache nor workers of its own."""
        return {**vars(self), "_cache": None, "_counted": None, "_compute": LOCAL}

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        """Return all that determines the vectors of a text, without loading the model."""
        described = {**self._encoder.describe(kind), "pooling": "none", "stored": "float16"}
        if not self._is_multi_vector:
            return {**described, "special_tokens": "dropped"}
        own = interaction_sha256(self._encoder.files.path)
        return {**described, "task": kind, "special_tokens": "as the model does", "read_as": own}

    def encode(
        self, texts: Sequence[str], *, kind: Kind, progress: Progress | None = None
    ) -> dict[str, TokenVectors]:
        """Return text -> its token vectors, each of length 1; a text without token has none.

        Args:
            texts: may repeat; each is encoded once.
            kind: which prompt.
            progress: called with (texts encoded, texts to encode); not at all when none is new.

        Returns:
            float16, shape (tokens, dimension) for each text. The maximum length of the model
            counts; what is beyond it has no vectors.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        return encode_unknown(
            texts,
            partial(self._embed, kind=kind),
            lengths=partial(
                batch_lengths,
                files=self._encoder.files,
                batch_size=BATCH_SIZE,
                prompt=self._encoder.prompt(kind),
                counted=self._counted,
            ),
            prompt=self._encoder.prompt(kind),
            cache=self._opened(kind),
            compute=self._compute,
            group_size=BATCH_SIZE * BATCHES_PER_GROUP,
            progress=progress,
        )

    def _opened(self, kind: Kind) -> TokenVectorCache | None:
        if self._cache is None:
            return None
        described = {name: v for name, v in self.describe(kind).items() if name != "prompt"}
        described["code"] = filled_by(root_of(TokenEncoder, "encode"))
        return TokenVectorCache(self._cache, fingerprint(described))

    def _embed(self, texts: list[str], kind: Kind) -> list[TokenVectors]:
        if self._is_multi_vector:
            return self._embed_as_trained(texts, kind)
        model, prompt = load_model(self._encoder.files), self._encoder.prompt(kind)
        vectors: list[TokenVectors] = []
        with quiet_models():
            for batch in in_batches(texts, BATCH_SIZE):
                vectors += _token_vectors(model, [prompt + text for text in batch])
        return vectors

    def _embed_as_trained(self, texts: list[str], kind: Kind) -> list[TokenVectors]:
        model = load_multi_vector_model(self._encoder.files)
        encode = model.encode_query if kind == "query" else model.encode_document
        with quiet_models():
            found = [
                own
                for batch in in_batches(texts, BATCH_SIZE)
                for own in encode(
                    batch,
                    prompt=self._given[kind],
                    batch_size=BATCH_SIZE,
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
