"""Vectors of chunks, and their exact search by cosine, inner product or Euclidean distance.

faiss finds candidates in fp32; score, order and cut are decided in float64, so results depend
neither on threads nor on block sizes. The fp32 inner product of q and x of dimension d is off by
at most gamma * |q| * |x|, gamma = d u / (1 - d u), u = 2**-24, whatever the order of summation
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, with Cauchy-Schwarz), and by d
times the smallest normal fp32 number where products underflow. Where that leaves open whether faiss
missed one of the best k, all chunks that could be are scored again.

The order by Euclidean distance is that by ``q.x - |x|^2 / 2 = (|q|^2 - |q - x|^2) / 2``: the inner
product of (q, 1) with (x, -|x|^2 / 2). Its last component is rounded to fp32, which adds
u * |x|^2 / 2 to the bound; and because the exact value is computed from the distance in float64, so
does the rounding of that, d * 2**-50 * (|q| + |x|)^2 at most.

An index lies in segments, each a table and the raw copy of its vectors, which a search maps. Their
candidates are those of the whole: what faiss leaves out of any of them is below one bound.

A large index is searched in parts, each by a worker; the hits are those of the whole. A score
depends on one vector and the query, and the best k of the whole are among the best k of each part,
ties at the cut included: each part is cut in the one order of :mod:`rag_assets.ordering`, which the
merged hits are sorted by again.

Vectors of queries are a table of :data:`rag_assets.schemas.QUERY_VECTORS` with a row for each of
``variants``, which has the columns ``query_id`` and ``variant``. The list of a dense vector holds
its components. That of a sparse one holds the numbers of its components that are not 0, and then
their weights in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from math import isqrt, sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.compute.compute import Compute
from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.models.cache_fill import (
    LENGTH_TOLERANCE,
    SparseVector,
    Vectors,
    check_unit_rows,
    checked_lengths,
)
from rag_assets.ordering import Hits, Positions, top_k
from rag_assets.retrieval.array_folder import PLAIN, ArrayFolder, new_segments, table_of
from rag_assets.retrieval.base import Report, Searcher
from rag_assets.schemas import QUERY_VECTORS

Similarity = Literal["cosine", "dot", "euclidean"]
Numbers = npt.NDArray[np.float64]
Row = npt.NDArray[np.float32]

VECTORS = "vectors"
"""The table of chunks and vectors, and the raw copy of the vectors that a search maps.

Reading 10^6 vectors of 384 numbers out of Parquet takes ten times as long as opening the copy.
"""

READ_AS_ONE = 1 << 26
"""Bytes of vectors up to which segments are read into one: searching each takes twice as long."""

GROUP_BYTES = 1 << 24
"""Bytes of the vectors that are written to the table at once, and make a row group of it."""

BLOCK = 256
"""Queries that faiss is given at once, and between two reports of progress."""

SMALLEST_SHARE = 16
"""Fewer queries are not worth a thread of their own: each reads all vectors."""

MARGIN = 16
"""Candidates beyond k: few enough to be cheap, enough for ordinary score gaps."""

VECTORS_AT_ONCE = 1 << 9
"""Vectors that are brought together at once, to be scored exactly."""

MATRIX_FROM = 4_000
"""Numbers of the queries of a block from which faiss multiplies matrices; changes speed only. Its
own 128,000 (from 1.15 on) suit dozens of threads: one is five times faster by matrices."""

_UNIT = 2.0**-24
_SMALLEST_NORMAL = 2.0**-126


@dataclass(frozen=True)
class VectorIndex(Searcher[pa.Table]):
    """Chunks and their vectors, searched without missing any.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        segments: their vectors, of one part of the chunks after the other; float32, shape (chunks,
            dimension).
        similarity: what scores are; a Euclidean distance becomes its negative.
    """

    chunk_ids: tuple[str, ...]
    segments: tuple[Vectors, ...]
    similarity: Similarity = "cosine"

    @classmethod
    def load(cls, folder: Path, similarity: Similarity = "cosine") -> VectorIndex:
        """Open what ``build_vectors`` wrote; the vectors stay on disk until they are used."""
        files, segments = ArrayFolder(folder), list[Vectors]()
        chunk_ids: list[str] = []
        for end in files.ends():
            names, vectors = files.table(VECTORS + end, ["chunk_id"]), files.array(VECTORS + end)
            shape = (names.num_rows, segments[0].shape[1] if segments else vectors.shape[-1])
            if vectors.dtype != np.float32 or vectors.shape != shape:
                raise StoreError(
                    f"embedding index {folder} is damaged: {names.num_rows} ids, and vectors of "
                    f"shape {vectors.shape} and type {vectors.dtype}"
                )
            chunk_ids += names.column("chunk_id").to_pylist()
            segments.append(vectors)
        if sum(part.nbytes for part in segments) <= READ_AS_ONE:
            segments = [np.concatenate(segments)] if segments else segments
        return cls(tuple(chunk_ids), tuple(segments), similarity)

    @cached_property
    def _starts(self) -> Positions:
        return np.cumsum([0, *map(len, self.segments)])[:-1]

    def vectors(self, positions: Positions) -> Vectors:
        """Return the vectors of some chunks, in an array of one more dimension."""
        if len(self.segments) == 1:
            return self.segments[0][positions]
        flat = positions.ravel()
        order, rows = flat.argsort(), np.empty((flat.size, self.segments[0].shape[1]), np.float32)
        bounds = flat[order].searchsorted([*self._starts, len(self.chunk_ids)])
        parts = zip(self.segments, self._starts, pairwise(bounds), strict=True)
        for vectors, start, (first, end) in parts:
            chosen = order[first:end]
            rows[chosen] = vectors[flat[chosen] - start]
        return rows.reshape(*positions.shape, rows.shape[1])

    def restricted_to(self, positions: Positions) -> VectorIndex:
        chunk_ids = tuple(self.chunk_ids[position] for position in positions)
        return VectorIndex(chunk_ids, (self.vectors(positions),), self.similarity)

    def search(self, queries: pa.Table, depth: int, progress: Report | None) -> list[Hits]:
        return self.nearest(dense_matrix(queries), depth, progress)

    def nearest(
        self, queries: Vectors, k: int, progress: Report | None = None, *, block: int = BLOCK
    ) -> list[Hits]:
        """Return for each query its ``k`` best chunks; all chunks when there are fewer.

        Order: score descending, then id descending by UTF-8 bytes, exact at the cut. The score is
        the inner product, or the negative of the Euclidean distance, in float64.
        """
        import faiss

        if k < 1:
            raise UsageError(f"k is {k}; it must be at least 1")
        if not self.chunk_ids or not len(queries):
            return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in range(len(queries))]
        self.check(queries)
        self.prepare()
        # Threads of faiss wait for one another at every 1,024 chunks: each of ours has queries of
        # its own, and runs faiss on itself alone.
        threads, before = faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold
        size = min(block, max(SMALLEST_SHARE, -(-len(queries) // threads)))
        blocks = [queries[at : at + size] for at in range(0, len(queries), size)]
        alone = partial(faiss.omp_set_num_threads, 1)
        hits: list[Hits] = []
        faiss.cvar.distance_compute_blas_threshold = MATRIX_FROM
        with ThreadPoolExecutor(threads, initializer=alone) as pool:
            try:
                for hits_of_block in pool.map(partial(self.best_of_block, k=k), blocks):
                    hits += hits_of_block
                    if progress is not None:
                        progress(len(hits))
            finally:
                pool.shutdown(cancel_futures=True)
                faiss.cvar.distance_compute_blas_threshold = before
        return hits

    def check(self, queries: Vectors) -> None:
        """Refuse vectors of queries that cannot be compared with those of the index."""
        dimension = self.segments[0].shape[1]
        if queries.ndim != 2 or queries.shape[1] != dimension:
            problem = f"query vectors have shape {queries.shape}"
            raise DataError(f"{problem}; the index has dimension {dimension}")
        if queries.dtype != np.float32:
            raise DataError(f"query vectors are {queries.dtype}; they must be float32")
        check = check_unit_rows if self.similarity == "cosine" else checked_lengths
        check(queries, lambda row: f"query {row}")

    def prepare(self) -> None:
        """Make what all threads read, before there are some."""
        self._searched  # noqa: B018

    def ranked(self, query: Row, candidates: Positions, k: int) -> Hits:
        """Return the best ``k`` of some chunks, by their exact scores."""
        _, scores = self._exact(query[np.newaxis], self.vectors(candidates[np.newaxis]))
        (hits,) = self._cut(candidates[np.newaxis], scores, k)
        return hits

    def _cut(self, candidates: Positions, scores: Numbers, k: int) -> list[Hits]:
        """Return the best ``k`` of the candidates of each query: two arrays of its rows."""
        order = np.argsort(-scores)
        ordered = np.take_along_axis(scores, order, axis=1)
        # Only ties need the order of the ids, which takes a second for a large index.
        for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
            order[row] = top_k(scores[row], self.ids_rank[candidates[row]], scores.shape[1])
        best = order[:, :k]
        pairs = (np.take_along_axis(array, best, axis=1) for array in (candidates, scores))
        return [*map(Hits, *pairs)]

    @cached_property
    def _searched(self) -> tuple[list[Vectors], float, float]:
        """What faiss multiplies, the length of its longest row, and that of the index."""
        parts = [*map(np.ascontiguousarray, self.segments)]
        if self.similarity == "cosine":
            return parts, 1 + LENGTH_TOLERANCE, 1 + LENGTH_TOLERANCE
        lengths = [*map(self._lengths, range(len(parts)))]
        longest = max(float(part.max(initial=0.0)) for part in lengths)
        if self.similarity == "dot":
            return parts, longest, longest
        halves = [(-(part**2) / 2).astype(np.float32)[:, None] for part in lengths]
        parts = [np.hstack(pair) for pair in zip(parts, halves, strict=True)]
        half = float(np.float32(longest**2 / 2))
        return parts, sqrt(longest**2 + half**2), longest

    def _lengths(self, number: int) -> Numbers:
        """Return the lengths of the vectors of a segment."""
        names = self.chunk_ids[self._starts[number] :]
        return checked_lengths(self.segments[number], lambda row: f"chunk '{names[row]}'")

    def best_of_block(self, queries: Vectors, k: int) -> list[Hits]:
        """Return for each query its ``k`` best chunks."""
        n_chunks, sent = len(self.chunk_ids), np.ascontiguousarray(queries)
        if self.similarity == "euclidean":
            sent = np.hstack([queries, np.ones((len(queries), 1), np.float32)])
        fetched = min(k + MARGIN, n_chunks)
        nearest, lowest = self._nearest(sent, fetched)
        n_rows = max(1, VECTORS_AT_ONCE // fetched)
        hits = list[Hits]()
        for start in range(0, len(queries), n_rows):
            part = slice(start, start + n_rows)
            hits += self._best_of(queries[part], sent[part], nearest[part], lowest[part], k)
        return hits

    def _best_of(
        self, queries: Vectors, sent: Vectors, nearest: Positions, lowest: Row, k: int
    ) -> list[Hits]:
        """Return the best ``k`` of the ``nearest`` of each query; of others where those count.

        ``lowest`` is what no other chunk is above in fp32.
        """
        values, scores = self._exact(queries, self.vectors(nearest))
        hits = self._cut(nearest, scores, k)
        if nearest.shape[1] == len(self.chunk_ids):
            return hits
        least = np.partition(values, -k)[:, -k] - self._errors(queries, sent)
        for row in np.flatnonzero(lowest >= least):  # one left out may be among the best k
            rough = np.concatenate([part @ sent[row] for part in self._searched[0]])
            candidates = np.flatnonzero(rough >= least[row])[np.newaxis]
            _, scores = self._exact(queries[row : row + 1], self.vectors(candidates))
            (hits[row],) = self._cut(candidates, scores, k)
        return hits

    def _nearest(self, sent: Vectors, n: int) -> tuple[Positions, Row]:
        """Return the best ``n`` chunks of each query in fp32, and what no other one is above.

        A segment is asked for its share and some more, and once more for all of them where its last
        one is not below the best of all segments.
        """
        import faiss

        parts = self._searched[0]
        # The kernel of IndexFlatIP, without the index's own copy of the vectors.
        knn: Callable[..., Any] = partial(faiss.knn, metric=faiss.METRIC_INNER_PRODUCT)
        means = [-(-n * len(part) // len(self.chunk_ids)) for part in parts]
        sizes = [min(mean + 4 * isqrt(mean) + 2, n) for mean in means]
        pairs = zip(parts, sizes, strict=True)
        shares = [knn(sent, part, min(size, len(part))) for part, size in pairs]
        least = np.partition(np.concatenate([rough for rough, _ in shares], axis=1), -n)[:, -n]
        best = faiss.ResultHeap(len(sent), n, keep_max=True)
        for start, part, (rough, nearest) in zip(self._starts, parts, shares, strict=True):
            most = min(n, len(part))
            again = np.flatnonzero((rough[:, -1] >= least) & (rough.shape[1] < most))
            if again.size:
                more, places = knn(sent[again], part, most)
                best.add_result_subset(again, more, places + start)
                rough[again] = -np.inf
            best.add_result(rough, nearest + start)
        best.finalize()
        return best.I, np.maximum(least, best.D[:, -1])

    def _exact(self, queries: Vectors, vectors: Vectors) -> tuple[Numbers, Numbers]:
        """Return what faiss approximates, and the scores, of the vectors of each query."""
        rows = queries[:, np.newaxis]
        if self.similarity != "euclidean":  # the cosine: vectors have length 1
            scores = inner_products(vectors, rows)
            return scores, scores
        squares = (vectors.astype(np.float64) - rows.astype(np.float64)) ** 2
        scores = -np.sqrt(squares.sum(axis=-1))
        return ((rows.astype(np.float64) ** 2).sum(axis=-1) - scores**2) / 2, scores

    def _errors(self, queries: Vectors, sent: Vectors) -> Numbers:
        """Return a bound of the difference between the fp32 and the exact value of any chunk."""
        _, longest_searched, longest = self._searched
        dimension = sent.shape[1]
        gamma = dimension * _UNIT / (1 - dimension * _UNIT)
        lengths, lengths_sent = (
            np.linalg.norm(rows.astype(np.float64), axis=1) for rows in (queries, sent)
        )
        errors: Numbers = gamma * lengths_sent * longest_searched + dimension * _SMALLEST_NORMAL
        if self.similarity == "euclidean":
            errors += _UNIT * longest**2 / 2 + _SMALLEST_NORMAL
        errors += dimension * 2.0**-50 * (lengths + longest) ** 2
        return 1.01 * errors


def inner_products(vectors: Vectors, queries: Vectors | Row) -> Numbers:
    """Return the inner product of each vector with its query, or the one query, in float64.

    Products of two fp32 numbers are exact in float64; each row is summed by itself in one fixed
    order. A BLAS product would round equal rows differently, depending on where they stand.
    """
    products: Numbers = np.multiply(vectors, queries, dtype=np.float64).sum(axis=-1)
    return products


def build_vectors(
    chunk_ids: Sequence[str],
    texts: Sequence[str],
    folder: Path,
    earlier: Path | None,
    embed: Callable[..., Vectors],
) -> dict[str, Any]:
    """Write an index in segments into an existing folder; see :func:`new_segments`.

    ``embed`` returns the vectors of some texts. By ``make``, as :class:`MakeArray`, it may have an
    array that is never in memory as a whole.
    """
    files, file = ArrayFolder(folder), folder / "new.npy"
    rows, segments = new_segments(chunk_ids, texts, files, earlier)

    def make(shape: tuple[int, int], *, dtype: type[np.float32]) -> Vectors:
        array: Vectors = np.lib.format.open_memmap(file, "w+", dtype, shape)
        return array

    vectors = embed([texts[row] for row in rows], make=make)
    if vectors.ndim != 2 or len(vectors) != len(rows):
        raise DataError(f"{len(rows)} chunks, but vectors of shape {vectors.shape}")
    for end, ids, places in segments:
        save_vectors(ids, vectors[places], folder, end)
    file.unlink(missing_ok=True)
    shape = files.array(VECTORS + files.ends()[0]).shape if chunk_ids else (0, 0)
    return {"chunks": len(chunk_ids), "dimension": shape[1], "bytes": files.size}


def save_vectors(chunk_ids: Sequence[str], vectors: Vectors, folder: Path, end: str) -> None:
    """Write a segment: the raw copy, and the table a group at a time."""
    files, vectors = ArrayFolder(folder), np.ascontiguousarray(vectors, dtype=np.float32)
    files.save(**{VECTORS + end: vectors})
    file, dimension = files.table_file(VECTORS + end), vectors.shape[1]
    kind = pa.list_(pa.field("element", pa.float32(), nullable=False), dimension)

    def group(start: int, end: int) -> pa.Table:
        numbers = pa.py_buffer(vectors[start:end])
        values = pa.Array.from_buffers(pa.float32(), (end - start) * dimension, [None, numbers])
        column = pa.Array.from_buffers(kind, end - start, [None], children=[values])
        return table_of(chunk_id=pa.array(chunk_ids[start:end], pa.string()), vector=column)

    n_rows = max(1, GROUP_BYTES // max(vectors[:1].nbytes, 1))
    with pq.ParquetWriter(file, group(0, 0).schema, **PLAIN) as writer:
        for start in range(0, len(chunk_ids), n_rows):
            writer.write_table(group(start, min(start + n_rows, len(chunk_ids))))


def sharded(searcher: Searcher[pa.Table], compute: Compute) -> Searcher[pa.Table]:
    """Return a searcher that gives the same hits by the workers of ``compute``.

    Only exact searches of vectors have parts, and only large ones are worth it; else it is the
    searcher itself.
    """
    if type(searcher) is not VectorIndex:
        return searcher
    n_parts = compute.n_parts(len(searcher.chunk_ids))
    return searcher if n_parts < 2 else ShardedIndex(searcher, compute, n_parts)


class ShardedIndex(Searcher[pa.Table]):
    """An exact search of vectors in parts of about equal size, in the memory of the cluster."""

    def __init__(self, whole: VectorIndex, compute: Compute, n_parts: int) -> None:
        self.chunk_ids: Sequence[str] = whole.chunk_ids
        self._whole, self._compute = whole, compute
        bounds = np.linspace(0, len(whole.chunk_ids), n_parts + 1).round().astype(int).tolist()
        parts = (whole.restricted_to(np.arange(*bound)) for bound in pairwise(bounds))
        self._starts, self._shards = bounds[:-1], [*map(compute.share, parts)]

    def search(self, queries: pa.Table, depth: int, progress: Report | None) -> list[Hits]:
        hits_of: dict[int, list[Hits]] = {}
        blocks = ((shard, queries, depth) for shard in self._shards)
        for part, hits in self._compute.map(search_shard, blocks):
            hits_of[part] = hits
            if progress is not None:
                progress(queries.num_rows * len(hits_of) // len(self._shards))
        by_query = zip(*(hits_of[part] for part in sorted(hits_of)), strict=True)
        return [self._merged(hits, depth) for hits in by_query]

    def restricted_to(self, positions: Positions) -> VectorIndex:
        """Return a searcher of these chunks, in this process: they are few."""
        return self._whole.restricted_to(positions)

    def _merged(self, parts: Sequence[Hits], depth: int) -> Hits:
        """Return the best hits of one query over all parts."""
        starts = zip(parts, self._starts, strict=True)
        positions = np.concatenate([hits.positions + start for hits, start in starts])
        scores = np.concatenate([hits.scores for hits in parts])
        best = top_k(scores, self._whole.ids_rank[positions], depth)
        return Hits(positions[best], scores[best])


def search_shard(shard: VectorIndex, queries: pa.Table, depth: int) -> list[Hits]:
    """Return the hits of all queries in one part."""
    return shard.search(queries, depth, None)


MAX_COMPONENTS = 2**24
"""Whole numbers below it are exact in fp32."""


def dense_table(variants: pa.Table, vectors: Vectors) -> pa.Table:
    """Return the table of vectors; float32, shape (rows, dimension)."""
    count, dimensions = vectors.shape
    offsets = np.arange(0, (count + 1) * dimensions, dimensions, dtype=np.int32)
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return _table(variants, pa.ListArray.from_arrays(pa.array(offsets), values))


def dense_matrix(table: pa.Table) -> Vectors:
    """Return the vectors of a table, all of the same dimension; float32."""
    values: Vectors = table.column("vector").combine_chunks().flatten().to_numpy()
    return values.reshape(table.num_rows, -1)


def sparse_table(variants: pa.Table, vectors: Sequence[SparseVector]) -> pa.Table:
    """Return the table of sparse vectors, one a row."""
    if any(v.components.max(initial=0) >= MAX_COMPONENTS for v in vectors):
        raise DataError(f"a sparse vector has more than {MAX_COMPONENTS:,} components")
    rows = [np.concatenate([v.components.astype(np.float32), v.weights]) for v in vectors]
    return _table(variants, pa.array(rows, pa.list_(pa.float32())))


def sparse_vectors(table: pa.Table) -> list[SparseVector]:
    """Return the sparse vectors of a table."""
    halves = (np.split(row.values.to_numpy(), 2) for row in table.column("vector").combine_chunks())
    return [SparseVector(components.astype(np.int32), weights) for components, weights in halves]


def _table(variants: pa.Table, vectors: pa.Array) -> pa.Table:
    columns = [variants.column("query_id"), variants.column("variant"), vectors]
    return pa.table(columns, schema=QUERY_VECTORS.arrow())
