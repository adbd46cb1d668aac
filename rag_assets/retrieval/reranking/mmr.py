"""``type: mmr``: maximal marginal relevance, for results that are not all alike.

Carbonell and Goldstein: The use of MMR, diversity-based reranking for reordering documents and
producing summaries, SIGIR 1998. Of the documents D not yet chosen, with those chosen in S, the next
one is

    argmax over d in D of  lambda * sim(d, query) - (1 - lambda) * max over s in S of sim(d, s)

where sim is the cosine; without a chosen document the second term is 0. Equal values are decided by
the cosine to the query, then by id, descending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assets.models.encoder import Encoder
from rag_assets.models.loading import PACKAGES
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.unit_vectors import Vectors
from rag_assets.options import Number
from rag_assets.ordering import Positions, byte_order_ranks
from rag_assets.package_versions import version
from rag_assets.retrieval.dense.exact import inner_products
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Scores
from rag_assets.retrieval.workspace import ALONE, Workspace

BLOCK = 64
"""Queries whose documents are looked up at once."""


class MMR(RerankedRetriever):
    """Reranking for diversity: like the query, unlike what stands before.

    ``lambda`` is the weight of being like the query: 1 orders by it alone. Likeness is the cosine
    of the vectors of ``model``, an embedding model; what another retriever embedded is looked up.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"

    type: Literal["mmr"]
    lambda_: Number = Field(default=0.5, ge=0, le=1, alias="lambda")
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    @property
    def compares_queries(self) -> bool:
        """No: a score is made of ranks."""
        return False

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        return {name: version(name) for name in PACKAGES}

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the vectors of queries and documents."""
        encoder = self._encoder()
        return {"query": encoder.describe("query"), "document": encoder.describe("document")}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Put the candidates of each query in the order in which they are chosen."""
        encoder = self._encoder(workspace)
        with workspace.progress("rerank", len(candidates)) as advance:
            return Reranked(rerank_by_mmr(candidates, encoder, self.lambda_, advance))

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Embed the query past the cache, and choose."""
        encoder = self._encoder(workspace)
        encoder.embed_now([candidates.query], kind="query")
        rerank_by_mmr([candidates], encoder, self.lambda_)
        return True

    def document_vectors(self, texts: Sequence[str], workspace: Workspace) -> Vectors:
        """Return the unit vectors of documents, float32, shape (len(texts), dimension)."""
        return self._encoder(workspace).encode(texts, kind="document")

    def _encoder(self, workspace: Workspace = ALONE) -> Encoder:
        return Encoder(**workspace.encoder_options(self, "embeddings"))


def rerank_by_mmr(
    candidates: Sequence[Candidates],
    encoder: Encoder,
    lambda_: float,
    progress: Callable[[int], None] | None = None,
) -> list[Scores]:
    """Return 1 / rank of every candidate of every query.

    Args:
        candidates: of each query.
        encoder: gives the vectors of queries and documents.
        lambda_: from 0 to 1.
        progress: called with the number of queries done so far.

    Raises:
        ModelUnavailable: the model cannot be loaded.
    """
    queries = encoder.encode([one.query for one in candidates], kind="query")
    scores: list[Scores] = []
    for start in range(0, len(candidates), BLOCK):
        block = candidates[start : start + BLOCK]
        rows: dict[str, int] = {}
        for text in (text for one in block for text in one.texts):
            rows.setdefault(text, len(rows))
        vectors = encoder.encode(list(rows), kind="document")
        for query, one in zip(queries[start : start + BLOCK], block, strict=True):
            own = vectors[[rows[text] for text in one.texts]]
            ranks = np.empty(len(own))
            ranks[mmr_order(query, own, one.unit_ids, lambda_)] = np.arange(1, len(own) + 1)
            scores.append(1.0 / ranks)
        if progress is not None:
            progress(len(scores))
    return scores


def mmr_order(
    query: Vectors, documents: Vectors, unit_ids: Sequence[str], lambda_: float
) -> Positions:
    """Return the documents as positions, the first chosen first.

    Args:
        query: unit vector, float32, shape (dimension,).
        documents: unit vectors, float32, shape (n, dimension).
        unit_ids: the id of each, unique.
        lambda_: from 0 (only unlike those before) to 1 (only like the query).
    """
    relevance = inner_products(documents, query)
    ids_rank = byte_order_ranks(unit_ids)
    nearest = np.zeros(len(documents))
    left = np.arange(len(documents), dtype=np.int64)
    chosen: list[int] = []
    while left.size:
        values = lambda_ * relevance[left] - (1.0 - lambda_) * nearest[left]
        best = int(left[np.lexsort((ids_rank[left], relevance[left], values))[-1]])
        left = left[left != best]
        likeness = inner_products(documents[left], documents[best])
        nearest[left] = np.maximum(nearest[left], likeness) if chosen else likeness
        chosen.append(best)
    return np.array(chosen, dtype=np.int64)
