"""A search whose queries are divided among the workers of a cluster, each with the whole index."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from rag_assets.compute.compute import Compute
from rag_assets.ordering import Hits, Positions
from rag_assets.retrieval.base import QuerySearcher, Report, Searcher


def spread(searcher: Searcher[Any], compute: Compute) -> Searcher[Any]:
    """Return a searcher that gives the same hits by the workers of ``compute``.

    Only an index that is searched for one query after the other, and only a large one; else it is
    the searcher itself.
    """
    if not isinstance(searcher, QuerySearcher) or compute.n_parts(len(searcher.chunk_ids)) < 2:
        return searcher
    return SpreadSearch(searcher, compute)


class SpreadSearch(Searcher[Any]):
    """An index in the memory of the cluster, of which each worker answers some queries."""

    def __init__(self, whole: QuerySearcher[Any], compute: Compute) -> None:
        self.chunk_ids = whole.chunk_ids
        self._whole, self._compute, self._shared = whole, compute, compute.share(whole)

    def search(
        self,
        queries: Any,  # noqa: ANN401 (as the index takes them)
        depth: int,
        progress: Report | None,
    ) -> list[Hits]:
        n_parts = min(self._compute.n_workers, len(queries))
        bounds = np.linspace(0, len(queries), n_parts + 1).round().astype(int).tolist()
        parts = ((self._shared, queries[start:end], depth) for start, end in pairwise(bounds))
        hits_of: dict[int, list[Hits]] = {}
        for part, hits in self._compute.map(_hits, parts):
            hits_of[part] = hits
            if progress is not None:
                progress(sum(map(len, hits_of.values())))
        return [hits for part in sorted(hits_of) for hits in hits_of[part]]

    def restricted_to(self, positions: Positions) -> Searcher[Any] | None:
        """Return a searcher of these chunks, in this process: they are few."""
        return self._whole.restricted_to(positions)


def _hits(index: QuerySearcher[Any], queries: Any, depth: int) -> list[Hits]:  # noqa: ANN401
    """Return the hits of some queries."""
    return index.search(queries, depth)
