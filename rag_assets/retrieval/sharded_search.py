"""An index searched in parts, each by a worker; the hits are those of the whole.

A score depends on one vector and the query, and the best k of the whole are among the best k of
each part, ties at the cut included: each part is cut in the one order of
:mod:`rag_assets.ordering`, which the merged hits are sorted by again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from rag_assets.compute.compute import Compute
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.dense.search import FlatSearcher
from rag_assets.retrieval.dense.similarity_search import SimilaritySearcher
from rag_assets.retrieval.retriever import Searcher

Exact = FlatSearcher | SimilaritySearcher


def spread(searcher: Searcher[pa.Table], compute: Compute) -> Searcher[pa.Table]:
    """Return a searcher that gives the same hits by the workers of ``compute``.

    Only exact searches of vectors have parts, and only large ones are worth it; else it is the
    searcher itself.
    """
    if not isinstance(searcher, Exact):
        return searcher
    n_parts = compute.n_parts(len(searcher.chunk_ids))
    return searcher if n_parts < 2 else ShardedSearcher(searcher, compute, n_parts)


@dataclass(frozen=True)
class ShardedSearcher:
    """An exact search of vectors in parts."""

    whole: Exact
    compute: Compute
    n_parts: int

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.whole.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        parts: dict[int, tuple[Positions, Hits]] = {}
        blocks = ((shard, queries, depth) for shard in self._shards)
        for number, found in self.compute.map(search_shard, blocks):
            parts[number] = found
            if progress is not None:
                progress(queries.num_rows * len(parts) // self.n_parts)
        ordered = [parts[number] for number in sorted(parts)]
        return [self._merged(ordered, query, depth) for query in range(queries.num_rows)]

    def among(self, positions: Positions) -> Exact:
        """Return a searcher of these chunks, in this process: they are few."""
        return self.whole.among(positions)

    def _merged(self, parts: Sequence[tuple[Positions, Hits]], query: int, depth: int) -> Hits:
        """Return the best hits of one query over all parts."""
        own = [
            (slice(ends[query], ends[query + 1]), start, hits)
            for start, (ends, hits) in zip(self._bounds, parts, strict=False)
        ]
        positions = np.concatenate([hits.positions[rows] + start for rows, start, hits in own])
        scores = np.concatenate([hits.scores[rows] for rows, _, hits in own])
        best = top_k(scores, self._ids_rank[positions], depth)
        return Hits(positions[best], scores[best])

    @cached_property
    def _bounds(self) -> list[int]:
        """Where each part begins, and the end of the last."""
        ends = np.linspace(0, len(self.chunk_ids), self.n_parts + 1)
        return [int(end) for end in ends.round()]

    @cached_property
    def _shards(self) -> list[Any]:
        """The parts, each put into the memory of the cluster once."""
        return [
            self.compute.share(self.whole.among(np.arange(start, end)))
            for start, end in pairwise(self._bounds)
        ]

    @cached_property
    def _ids_rank(self) -> Positions:
        return byte_order_ranks(self.chunk_ids)


def search_shard(shard: Exact, queries: pa.Table, depth: int) -> tuple[Positions, Hits]:
    """Return the hits of all queries, one after the other, and where each query's begin and end.

    Returns:
        Positions in the hits, int64, shape (queries + 1,), and the hits of one part.
    """
    found = shard.search(queries, depth, None)
    ends = np.cumsum([0, *(len(one.positions) for one in found)], dtype=np.int64)
    none = Hits(np.empty(0, dtype=np.int64), np.empty(0))
    positions = np.concatenate([none.positions, *(one.positions for one in found)])
    scores = np.concatenate([none.scores, *(one.scores for one in found)])
    return ends, Hits(positions, scores)
