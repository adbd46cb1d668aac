"""``type: keep``: candidates in the order that they have, without those that are of no use.

With the candidates d1, d2, ... of a query in the order of the input, d is dropped where

    score(d) < min_score,  or  max over s in S of cos(d, s) > max_similarity

with S those kept above it and the cosine of their vectors as ``type: embedding`` has them. What is
kept has the input's score, so its order is the input's. The second rule is the threshold of
redundancy of Zhang, Callan and Minka (Novelty and redundancy detection in adaptive filtering, SIGIR
2002), with the cosine distance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assets.models.encoder import Encoder
from rag_assets.models.known_prompts import prompts_of
from rag_assets.models.loading import PACKAGES
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.unit_vectors import Vectors
from rag_assets.options import Number
from rag_assets.package_versions import version
from rag_assets.retrieval.dense.exact import inner_products
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.workspace import ALONE, Workspace

BLOCK = 64
"""Queries whose documents are looked up at once."""


class Keep(RerankedRetriever):
    """Candidates without those of no use: below a score, or nearly what stands above already.

    ``min_score`` is in the scores of the input. ``max_similarity`` is a cosine of the vectors of
    ``model``, an embedding model; what another retriever embedded is looked up. The order stays;
    what is dropped is no result, and costs no tokens.
    """

    drops: ClassVar[bool] = True

    type: Literal["keep"]
    min_score: Number | None = None
    max_similarity: Number | None = Field(default=None, ge=-1, le=1)
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    document_prompt: str | None = None

    @model_validator(mode="after")
    def _drops_something(self) -> Self:
        if self.min_score is None and self.max_similarity is None:
            raise ValueError("keep drops nothing; give min_score, max_similarity or both")
        unread = {"model", "document_prompt"} & self.model_fields_set
        if self.max_similarity is None and unread:
            raise ValueError(f"{sorted(unread)[0]} belongs to max_similarity")
        return self

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds, where vectors are compared."""
        if self.max_similarity is None:
            return {}
        return {name: version(name) for name in PACKAGES}

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the vectors, where they are compared."""
        if self.max_similarity is None:
            return {}
        return {"document": self._encoder().describe("document")}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Give what is kept its score, and what is dropped none."""
        encoder = self._encoder(workspace) if self.max_similarity is not None else None
        scores: list[Scores] = []
        with workspace.progress("rerank", len(candidates)) as advance:
            for start in range(0, len(candidates), BLOCK):
                scores += self._scores(candidates[start : start + BLOCK], encoder)
                advance(len(scores))
        return Reranked(scores)

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Drop what is dropped; vectors of chunks are known before a query comes."""
        encoder = self._encoder(workspace) if self.max_similarity is not None else None
        self._scores([candidates], encoder)
        return True

    def _scores(self, block: Sequence[Candidates], encoder: Encoder | None) -> list[Scores]:
        scores = [np.array(one.scores, dtype=np.float64) for one in block]
        for own in scores:
            own[own < (-np.inf if self.min_score is None else self.min_score)] = np.nan
        if encoder is None or self.max_similarity is None:
            return scores
        left = [np.flatnonzero(~np.isnan(own)) for own in scores]
        texts = [
            [one.texts[position] for position in positions.tolist()]
            for one, positions in zip(block, left, strict=True)
        ]
        rows = {text: row for row, text in enumerate(dict.fromkeys(chain.from_iterable(texts)))}
        vectors = encoder.encode(list(rows), kind="document")
        for own, positions, of_query in zip(scores, left, texts, strict=True):
            kept = novel(vectors[[rows[text] for text in of_query]], self.max_similarity)
            own[positions[~kept]] = np.nan
        return scores

    def _encoder(self, workspace: Workspace = ALONE) -> Encoder:
        prompts = prompts_of(self.model, None, self.document_prompt)
        return Encoder(
            self.model,
            document_prompt=prompts.for_encoder("document"),
            cache=workspace.cache_of("embeddings"),
            counted=workspace.cache_of("token_counts"),
            compute=workspace.compute,
        )


def novel(vectors: Vectors, max_similarity: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which texts are like none of those kept above them.

    Args:
        vectors: unit vectors in the order of the ranking, float32, shape (n, dimension).
        max_similarity: the highest cosine to one kept above at which a text is kept.
    """
    kept = np.zeros(len(vectors), dtype=bool)
    for number, vector in enumerate(vectors):
        above = inner_products(vectors[kept], vector)
        kept[number] = not np.any(above > max_similarity)
    return kept
