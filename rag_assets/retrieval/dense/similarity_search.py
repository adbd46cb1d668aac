"""Exact search by inner product or Euclidean distance of vectors of any length.

faiss finds candidates in fp32, float64 decides score and order, as in
:mod:`.dense.search`. The fp32 inner product of q and x of dimension d is off by at
most gamma * |q| * |x|, gamma = d u / (1 - d u), u = 2**-24, whatever the order of summation
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, with Cauchy-Schwarz), and by d
times the smallest normal fp32 number where products underflow. A chunk whose fp32 value is lower
than the k-th exact value by more than the bound of the longest x cannot be among the best k.

The order by Euclidean distance is that by ``q.x - |x|^2 / 2 = (|q|^2 - |q - x|^2) / 2``: the inner
product of (q, 1) with (x, -|x|^2 / 2). Its last component is rounded to fp32, which adds
u * |x|^2 / 2 to the bound; and because the exact value is computed from the distance in float64, so
does the rounding of that, d * 2**-50 * (|q| + |x|)^2 at most.

A large index is searched in parts, each by a worker; the hits are those of the whole. A score
depends on one vector and the query, and the best k of the whole are among the best k of each part,
ties at the cut included: each part is cut in the one order of :mod:`rag_assets.ordering`, which the
merged hits are sorted by again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.compute.compute import Compute
from rag_assets.errors import DataError, UsageError
from rag_assets.models.unit_vectors import Vectors, checked_lengths
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.dense.query_vectors import dense_matrix
from rag_assets.retrieval.dense.search import (
    BLOCK,
    MARGIN,
    FlatSearcher,
    inner_products,
    matrix_products,
)
from rag_assets.retrieval.retriever import Searcher

Measure = Literal["dot", "euclidean"]
Row = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]

_UNIT = 2.0**-24
_SMALLEST_NORMAL = 2.0**-126


@dataclass(frozen=True)
class Searchable:
    """Vectors, prepared for one measure.

    Attributes:
        index: the index.
        measure: ``dot`` or ``euclidean``.
        matrix: what faiss searches by inner product; float32, shape (n, d) or (n, d + 1).
        longest: largest length of a row of the index.
        longest_searched: largest length of a row of ``matrix``.
    """

    index: FlatIndex
    measure: Measure
    matrix: Vectors
    longest: float
    longest_searched: float


@dataclass(frozen=True)
class SimilaritySearcher:
    """Vectors of any length that are searched exactly."""

    space: Searchable

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.space.index.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return search(self.space, dense_matrix(queries), depth, progress)

    def among(self, positions: Positions) -> SimilaritySearcher:
        """Return a searcher of these chunks: a score depends on no other vector."""
        index = self.space.index.among(positions)
        return SimilaritySearcher(searchable(index, self.space.measure))


def searchable(index: FlatIndex, measure: Measure) -> Searchable:
    """Prepare an index.

    Raises:
        DataError: a vector holds NaN or infinity, or is longer than 1e18.
    """
    lengths = checked_lengths(index.vectors, lambda row: f"chunk '{index.chunk_ids[row]}'")
    longest = float(lengths.max(initial=0.0))
    if measure == "dot":
        return Searchable(index, measure, index.vectors, longest, longest)
    halves = (-(lengths**2) / 2).astype(np.float32)
    matrix = np.hstack([index.vectors, halves[:, None]])
    searched = np.sqrt(lengths**2 + halves.astype(np.float64) ** 2)
    return Searchable(index, measure, matrix, longest, float(searched.max(initial=0.0)))


def search(
    space: Searchable,
    query_vectors: Vectors,
    k: int,
    progress: Callable[[int], None] | None = None,
    *,
    block: int = BLOCK,
) -> list[Hits]:
    """Return for each query its ``k`` best chunks; all chunks when there are fewer.

    Order: score descending, then id descending by UTF-8 bytes, exact at the cut. The score is the
    inner product, or the negative of the Euclidean distance, in float64.

    Args:
        space: what is searched.
        query_vectors: float32, shape (queries, dimension of the index).
        k: hits a query at most.
        progress: called with the number of queries done so far.
        block: queries a call of faiss; changes speed only.

    Raises:
        UsageError: ``k`` or ``block`` is below 1.
        DataError: a query vector has another dimension, NaN, or is longer than 1e18.
    """
    if k < 1 or block < 1:
        raise UsageError(f"k is {k} and block is {block}; both must be at least 1")
    n_chunks = len(space.index.chunk_ids)
    if not n_chunks or not len(query_vectors):
        return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in range(len(query_vectors))]
    dimension = space.index.vectors.shape[1]
    if query_vectors.ndim != 2 or query_vectors.shape[1] != dimension:
        shape = query_vectors.shape
        raise DataError(f"query vectors have shape {shape}; the index has dimension {dimension}")
    checked_lengths(query_vectors, lambda row: f"query {row}")
    found: list[Hits] = []
    for start in range(0, len(query_vectors), block):
        found += _search_block(space, query_vectors[start : start + block], k)
        if progress is not None:
            progress(len(found))
    return found


def _search_block(space: Searchable, queries: Vectors, k: int) -> list[Hits]:
    import faiss

    fetched = min(k + MARGIN, len(space.index.chunk_ids))
    asked = np.ascontiguousarray(queries, dtype=np.float32)
    if space.measure == "euclidean":
        asked = np.hstack([asked, np.ones((len(asked), 1), dtype=np.float32)])
    matrix = np.ascontiguousarray(space.matrix)
    with matrix_products():
        scores, positions = faiss.knn(asked, matrix, fetched, metric=faiss.METRIC_INNER_PRODUCT)
    return [
        _exact_hits(space, query, searched, candidates, float(lowest), k)
        for query, searched, candidates, lowest in zip(
            queries, asked, positions, scores.min(axis=1), strict=True
        )
    ]


def _exact_hits(
    space: Searchable,
    query: Row,
    searched: Row,
    candidates: npt.NDArray[np.int64],
    lowest: float,
    k: int,
) -> Hits:
    """Return the exact hits of one query; ``lowest`` bounds the fp32 values of all others."""
    values, scores = _exact(space, query, candidates)
    if len(candidates) < len(space.index.chunk_ids):
        error = _error(space, query, searched)
        kth_best = float(np.partition(values, -k)[-k])
        if lowest + error >= kth_best:  # a chunk that faiss left out may belong to the best k
            candidates = np.flatnonzero(space.matrix @ searched >= kth_best - error)
            values, scores = _exact(space, query, candidates)
    best = top_k(scores, space.index.ids_rank[candidates], k)
    return Hits(candidates[best], scores[best])


def _exact(
    space: Searchable, query: Row, candidates: npt.NDArray[np.int64]
) -> tuple[Numbers, Numbers]:
    """Return what faiss approximates, and the score, both float64, of each candidate."""
    vectors = space.index.vectors[candidates]
    if space.measure == "dot":
        products = inner_products(vectors, query)
        return products, products
    squares = squared_distances(vectors, query)
    length = float((query.astype(np.float64) ** 2).sum())
    return (length - squares) / 2, -np.sqrt(squares)


def squared_distances(vectors: Vectors, query: Row) -> Numbers:
    """Return the squared Euclidean distance of each row from ``query`` in float64, shape (n,)."""
    squares: Numbers = ((vectors.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1)
    return squares


def _error(space: Searchable, query: Row, searched: Row) -> float:
    """Return a bound of the difference between the fp32 and the exact value of any chunk."""
    dimension = len(searched)
    gamma = dimension * _UNIT / (1 - dimension * _UNIT)
    length = float(np.linalg.norm(query.astype(np.float64)))
    length_searched = float(np.linalg.norm(searched.astype(np.float64)))
    error = gamma * length_searched * space.longest_searched + dimension * _SMALLEST_NORMAL
    if space.measure == "euclidean":
        error += _UNIT * space.longest**2 / 2 + _SMALLEST_NORMAL
    error += dimension * 2.0**-50 * (length + space.longest) ** 2
    return 1.01 * error


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
