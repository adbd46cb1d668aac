"""Search in a lexical index: from query texts to the best chunks, in exact order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag_assets.ordering import Hits
from rag_assets.retrieval.lexical.analyzers import analyze_all
from rag_assets.retrieval.lexical.index import LexicalIndex

PROGRESS_EVERY = 100
"""Queries between two reports of progress."""


def search(
    index: LexicalIndex,
    queries: Sequence[str],
    k: int,
    progress: Callable[[int], None] | None = None,
) -> list[Hits]:
    """Return for each query the chunks that score above 0, at most ``k``.

    Order: score descending, then id descending by UTF-8 bytes, exact at the cut. A query without a
    token that is in the index has no hits.

    Args:
        index: the index.
        queries: the texts to search for; analysed like the chunks.
        k: hits a query at most.
        progress: called now and then, and at the end, with the number of queries done so far.

    Raises:
        UsageError: ``k`` is below 1.
    """
    best = index.engine.best(analyze_all(index.analyzer, queries), index.ids_rank, k)
    if progress is None:
        return [*best]
    found: list[Hits] = []
    for hits in best:
        found.append(hits)
        done = len(found)
        if done % PROGRESS_EVERY == 0 or done == len(queries):
            progress(done)
    return found
