"""How much of what exact search finds an approximate one finds, kept with the ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rag_assets.ordering import Hits
from rag_assets.retrieval.retriever import Approximate, Searcher

DEPTH = 10
QUERIES = 200
"""As many are searched twice, evenly spread over all; exact search may take a second each."""

RECALL, COUNT = "exact_recall_at_10", "exact_recall_queries"


def exact_recall(
    searcher: Searcher[Any],
    search: Callable[[Searcher[Any], Sequence[int], int], list[Hits]],
    n_queries: int,
) -> Mapping[str, Any]:
    """Return the mean share of the ten best chunks of exact search that a searcher finds.

    Args:
        searcher: of the retriever.
        search: searches by a searcher for queries, given by their numbers, to a depth.
        n_queries: how many queries there are.

    Returns:
        Facts: the share, of how many queries, and a note; nothing of a searcher that misses none.
    """
    if not isinstance(searcher, Approximate) or not n_queries or not len(searcher.chunk_ids):
        return {}
    numbers = np.unique(np.linspace(0, n_queries - 1, min(QUERIES, n_queries)).astype(int)).tolist()
    found = search(searcher, numbers, DEPTH)
    wanted = search(searcher.exact(), numbers, DEPTH)
    shares = [
        len(np.intersect1d(own.positions, best.positions)) / len(best.positions)
        for own, best in zip(found, wanted, strict=True)
        if len(best.positions)
    ]
    if not shares:
        return {}
    share = round(float(np.mean(shares)), 4)
    note = f"the graph finds {share:.2%} of the {DEPTH} chunks that exact search finds"
    told = f"{note} ({len(shares)} queries)"
    return {RECALL: share, COUNT: len(shares), "notes": [told]}
