"""Rerankers by what candidates have in common: ``type: mmr`` and ``type: keep``.

``type: mmr``: maximal marginal relevance, for results that are not all alike.

Carbonell and Goldstein: The use of MMR, diversity-based reranking for reordering documents and
producing summaries, SIGIR 1998. Of the documents D not yet chosen, with those chosen in S, the next
one is

    argmax over d in D of  lambda * sim(d, query) - (1 - lambda) * max over s in S of sim(d, s)

where sim is the cosine; without a chosen document the second term is 0. Equal values are decided by
the cosine to the query, then by id, descending.

``type: keep``: candidates in the order that they have, without those that are of no use.

With the candidates d1, d2, ... of a query in the order of the input, d is dropped where

    score(d) < min_score,  or  max over s in S of cos(d, s) > max_similarity

with S those kept above it and the cosine of their vectors as ``type: embedding`` has them. What is
kept has the input's score, so its order is the input's. The second rule is the threshold of
redundancy of Zhang, Callan and Minka (Novelty and redundancy detection in adaptive filtering, SIGIR
2002), with the cosine distance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assets.models.cache_fill import Vectors
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_files import PACKAGES
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.token_counts import in_batches
from rag_assets.options import Number
from rag_assets.ordering import Positions, byte_order_ranks
from rag_assets.package_versions import version
from rag_assets.retrieval.dense.vector_index import inner_products
from rag_assets.retrieval.reranking.candidates import Candidates, Reranked, RerankedRetriever
from rag_assets.retrieval.unit_ranking import Scores
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace

BLOCK = 64
"""Queries whose documents are looked up at once."""


class ByLikeness(RerankedRetriever, ABC):
    """A reranker that compares the vectors of candidates, some queries at a time."""

    @abstractmethod
    def scores_of(self, block: Sequence[Candidates], workspace: Workspace) -> list[Scores]:
        """Return the scores of every candidate of some queries."""

    def encoder(self, workspace: Workspace = NO_WORKSPACE) -> Encoder:
        """Return what embeds queries and documents; what another retriever embedded is known."""
        return Encoder(**workspace.encoder_options(self, "embeddings"))

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        scores: list[Scores] = []
        with workspace.progress("rerank", len(candidates)) as advance:
            for block in in_batches(candidates, BLOCK):
                scores += self.scores_of(block, workspace)
                advance(len(scores))
        return Reranked(scores)

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Score one query; vectors of chunks are known before a query comes."""
        self.scores_of([candidates], workspace)
        return True


class MMR(ByLikeness):
    """Reranking for diversity: like the query, unlike what stands before.

    ``lambda`` is the weight of being like the query: 1 orders by it alone. Likeness is the cosine
    of the vectors of ``model``, an embedding model; what another retriever embedded is looked up.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    packages: ClassVar[tuple[str, ...]] = PACKAGES

    type: Literal["mmr"]
    lambda_: Number = Field(default=0.5, ge=0, le=1, alias="lambda")
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    @property
    def compares_queries(self) -> bool:
        return False

    def describe(self) -> Mapping[str, Any]:
        encoder = self.encoder()
        return {"query": encoder.describe("query"), "document": encoder.describe("document")}

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        self.encoder().encode_now([candidates.query], kind="query")
        return super().rerank_now(candidates, workspace)

    def scores_of(self, block: Sequence[Candidates], workspace: Workspace) -> list[Scores]:
        """Return 1 / rank of every candidate, in the order in which they are chosen."""
        encoder = self.encoder(workspace)
        queries = encoder.encode([query.query for query in block], kind="query")
        vectors = _vectors_by_query([query.texts for query in block], encoder)
        scores: list[Scores] = []
        for query, vector, documents in zip(block, queries, vectors, strict=True):
            ranks = np.empty(len(documents))
            order = mmr_order(vector, documents, query.unit_ids, self.lambda_)
            ranks[order] = np.arange(1, len(documents) + 1)
            scores.append(1.0 / ranks)
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


class Keep(ByLikeness):
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
            raise ValueError("keep would drop nothing; give min_score, max_similarity or both")
        unread = {"model", "document_prompt"} & self.model_fields_set
        if self.max_similarity is None and unread:
            raise ValueError(f"{sorted(unread)[0]} is only for max_similarity")
        return self

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds, where vectors are compared."""
        return {} if self.max_similarity is None else {name: version(name) for name in PACKAGES}

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the vectors, where they are compared."""
        compares = self.max_similarity is not None
        return {"document": self.encoder().describe("document")} if compares else {}

    def scores_of(self, block: Sequence[Candidates], workspace: Workspace) -> list[Scores]:
        """Give what is kept its score, and what is dropped none."""
        scores = [np.array(query.scores, dtype=np.float64) for query in block]
        for of_query in scores:
            of_query[of_query < (-np.inf if self.min_score is None else self.min_score)] = np.nan
        if self.max_similarity is None:
            return scores
        left = [np.flatnonzero(~np.isnan(of_query)) for of_query in scores]
        rows = zip(block, left, strict=True)
        texts = [[query.texts[place] for place in places.tolist()] for query, places in rows]
        vectors = _vectors_by_query(texts, self.encoder(workspace))
        for of_query, places, documents in zip(scores, left, vectors, strict=True):
            of_query[places[~novel(documents, self.max_similarity)]] = np.nan
        return scores


def novel(vectors: Vectors, max_similarity: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which texts are like none of those kept above them.

    Args:
        vectors: unit vectors in the order of the ranking, float32, shape (n, dimension).
        max_similarity: the highest cosine to one kept above at which a text is kept.
    """
    is_novel = np.zeros(len(vectors), dtype=bool)
    for number, vector in enumerate(vectors):
        above = inner_products(vectors[is_novel], vector)
        is_novel[number] = not np.any(above > max_similarity)
    return is_novel


def _vectors_by_query(texts: Sequence[Sequence[str]], encoder: Encoder) -> list[Vectors]:
    """Return the vectors of each query's texts; equal ones are embedded once."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(t for part in texts for t in part))}
    vectors = encoder.encode(list(rows), kind="document")
    return [vectors[[rows[text] for text in part]] for part in texts]
