"""Maximal marginal relevance: each next document is about the query and unlike those before it.

Carbonell and Goldstein: The use of MMR, diversity-based reranking for reordering documents and
producing summaries, SIGIR 1998. Of the documents D not yet chosen, with those chosen in S, the next
one is

    argmax over d in D of  lambda * sim(d, query) - (1 - lambda) * max over s in S of sim(d, s)

where sim is the cosine; without a chosen document the second term is 0. Equal values are decided by
the cosine to the query, then by id, descending.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rag_assets.models.encoder import Encoder
from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Positions, byte_order_ranks
from rag_assets.retrieval.dense.search import inner_products
from rag_assets.retrieval.reranking.candidates import Candidates, Scores

BLOCK = 64
"""Queries whose documents are looked up at once."""


def mmr_order(
    query: Vectors, documents: Vectors, item_ids: Sequence[str], lambda_: float
) -> Positions:
    """Return the documents as positions, the first chosen first.

    Args:
        query: unit vector, float32, shape (dimension,).
        documents: unit vectors, float32, shape (n, dimension).
        item_ids: the id of each, unique.
        lambda_: from 0 (only unlike those before) to 1 (only like the query).
    """
    relevance = inner_products(documents, query)
    ids_rank = byte_order_ranks(item_ids)
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
            ranks[mmr_order(query, own, one.item_ids, lambda_)] = np.arange(1, len(own) + 1)
            scores.append(1.0 / ranks)
        if progress is not None:
            progress(len(scores))
    return scores
