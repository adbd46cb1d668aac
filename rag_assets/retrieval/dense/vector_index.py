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
    MakeArray,
    SparseVector,
    Vectors,
    check_unit_rows,
    checked_lengths,
)
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.array_folder import PLAIN, ArrayFolder, table_of
from rag_assets.retrieval.base import Searcher
from rag_assets.schemas import QUERY_VECTORS

Similarity = Literal["cosine", "dot", "euclidean"]
Numbers = npt.NDArray[np.float64]
Row = npt.NDArray[np.float32]

VECTORS = "vectors"
"""The table of chunks and vectors, and the raw copy of the vectors that a search maps.

Reading 10^6 vectors of 384 numbers out of Parquet takes ten times as long as opening the copy.
"""

VECTORS_FILE = f"{VECTORS}.npy"

GROUP_BYTES = 1 << 24
"""Bytes of the vectors that are written to the table at once, and make a row group of it."""

BLOCK = 256
"""Queries that faiss is given at once, and between two reports of progress."""

SMALLEST_SHARE = 16
"""Fewer queries are not worth a thread of their own: each reads all vectors."""

MARGIN = 32
"""Candidates beyond k: few enough to be cheap, enough for ordinary score gaps."""

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
        vectors: float32, shape (len(chunk_ids), dimension).
        similarity: what scores are; a Euclidean distance becomes its negative.
    """

    chunk_ids: tuple[str, ...]
    vectors: Vectors
    similarity: Similarity = "cosine"

    @classmethod
    def load(cls, folder: Path, similarity: Similarity = "cosine") -> VectorIndex:
        """Open what ``save_vectors`` wrote; the vectors stay on disk until they are used."""
        files = ArrayFolder(folder)
        names, vectors = files.table(VECTORS, ["chunk_id"]), files.array(VECTORS)
        chunk_ids = tuple(names.column("chunk_id").to_pylist())
        if vectors.ndim != 2 or vectors.dtype != np.float32 or len(vectors) != len(chunk_ids):
            raise StoreError(
                f"embedding index {folder} is damaged: {len(chunk_ids)} ids, and vectors of shape "
                f"{vectors.shape} and type {vectors.dtype}"
            )
        return cls(chunk_ids, vectors, similarity)

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    def restricted_to(self, positions: Positions) -> VectorIndex:
        chunk_ids = tuple(self.chunk_ids[position] for position in positions)
        return VectorIndex(chunk_ids, self.vectors[positions], self.similarity)

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        return self.nearest(dense_matrix(queries), depth, progress)

    def nearest(
        self,
        queries: Vectors,
        k: int,
        progress: Callable[[int], None] | None = None,
        *,
        block: int = BLOCK,
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
        dimension = self.vectors.shape[1]
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
        scores = exact_scores(self.vectors[candidates], query, self.similarity)
        return self._cut(candidates, scores, k)

    def _cut(self, candidates: Positions, scores: Numbers, k: int) -> Hits:
        # Only ties need the order of the ids, which takes a second for a large index.
        is_tied = len(np.unique(scores)) < len(scores)
        best = top_k(scores, self.ids_rank[candidates] if is_tied else candidates, k)
        return Hits(candidates[best], scores[best])

    @cached_property
    def _searched(self) -> tuple[Vectors, float, float]:
        """What faiss multiplies, the length of its longest row, and that of the index."""
        vectors = np.ascontiguousarray(self.vectors)
        if self.similarity == "cosine":
            return vectors, 1 + LENGTH_TOLERANCE, 1 + LENGTH_TOLERANCE
        lengths = checked_lengths(vectors, lambda row: f"chunk '{self.chunk_ids[row]}'")
        longest = float(lengths.max(initial=0.0))
        if self.similarity == "dot":
            return vectors, longest, longest
        halves = (-(lengths**2) / 2).astype(np.float32)
        searched = np.sqrt(lengths**2 + halves.astype(np.float64) ** 2)
        return np.hstack([vectors, halves[:, None]]), float(searched.max(initial=0.0)), longest

    def best_of_block(self, queries: Vectors, k: int) -> list[Hits]:
        """Return for each query its ``k`` best chunks."""
        import faiss

        matrix, n_chunks = self._searched[0], len(self.chunk_ids)
        sent = np.ascontiguousarray(queries)
        if self.similarity == "euclidean":
            sent = np.hstack([queries, np.ones((len(queries), 1), np.float32)])
        fetched = min(k + MARGIN, n_chunks)
        # The kernel of IndexFlatIP, without the index's own copy of the vectors.
        rough, nearest = faiss.knn(sent, matrix, fetched, metric=faiss.METRIC_INNER_PRODUCT)
        hits = []
        rows = zip(queries, sent, nearest, rough[:, -1], strict=True)
        for query, row, candidates, lowest in rows:
            values, scores = self._exact(query, candidates)
            if fetched < n_chunks:
                least = float(np.partition(values, -k)[-k]) - self._error(query, row)
                if lowest >= least:  # a chunk that faiss left out may be among the best k
                    candidates = np.flatnonzero(matrix @ row >= least)
                    _, scores = self._exact(query, candidates)
            hits.append(self._cut(candidates, scores, k))
        return hits

    def _exact(self, query: Row, positions: Positions) -> tuple[Numbers, Numbers]:
        """Return what faiss approximates, and the scores, of some chunks."""
        scores = exact_scores(self.vectors[positions], query, self.similarity)
        if self.similarity != "euclidean":
            return scores, scores
        return (float((query.astype(np.float64) ** 2).sum()) - scores**2) / 2, scores

    def _error(self, query: Row, sent: Row) -> float:
        """Return a bound of the difference between the fp32 and the exact value of any chunk."""
        _, longest_searched, longest = self._searched
        dimension = len(sent)
        gamma = dimension * _UNIT / (1 - dimension * _UNIT)
        length, length_sent = (
            float(np.linalg.norm(row.astype(np.float64))) for row in (query, sent)
        )
        error = gamma * length_sent * longest_searched + dimension * _SMALLEST_NORMAL
        if self.similarity == "euclidean":
            error += _UNIT * longest**2 / 2 + _SMALLEST_NORMAL
        error += dimension * 2.0**-50 * (length + longest) ** 2
        return 1.01 * error


def exact_scores(vectors: Vectors, query: Row, similarity: Similarity) -> Numbers:
    """Return the score of each row in float64: inner product, or negative Euclidean distance.

    The cosine is the inner product of vectors of length 1.
    """
    if similarity != "euclidean":
        return inner_products(vectors, query)
    squares = (vectors.astype(np.float64) - query.astype(np.float64)) ** 2
    distances: Numbers = np.sqrt(squares.sum(axis=1))
    return -distances


def inner_products(vectors: Vectors, query: Vectors | Row) -> Numbers:
    """Return the inner product of each row with ``query``, or with its row of it, in float64.

    Products of two fp32 numbers are exact in float64; each row is summed by itself in one fixed
    order. A BLAS product would round equal rows differently, depending on where they stand.
    """
    products: Numbers = np.multiply(vectors, query, dtype=np.float64).sum(axis=1)
    return products


def vectors_on_disk(folder: Path) -> MakeArray:
    """Return what makes the array whose file ``save_vectors`` leaves as it is.

    It is never in memory as a whole: the system writes what is filled, and forgets it, as it likes.
    """

    def make(shape: tuple[int, int], *, dtype: type[np.float32]) -> Vectors:
        array: Vectors = np.lib.format.open_memmap(folder / VECTORS_FILE, "w+", dtype, shape)
        return array

    return make


def save_vectors(chunk_ids: Sequence[str], vectors: Vectors, folder: Path) -> dict[str, Any]:
    """Write an index into an existing folder: ``vectors.parquet`` and its copy ``vectors.npy``."""
    if vectors.ndim != 2 or len(vectors) != len(chunk_ids):
        raise DataError(f"{len(chunk_ids)} chunks, but vectors of shape {vectors.shape}")
    byte_order_ranks(chunk_ids)
    plain, file = np.ascontiguousarray(vectors, dtype=np.float32), folder / VECTORS_FILE
    made = vectors.filename if isinstance(vectors, np.memmap) else None
    if made is None or Path(made).resolve() != file.resolve():  # else it is there already
        np.save(file, plain, allow_pickle=False)
    files = ArrayFolder(folder)
    _save_table(chunk_ids, plain, files.table_file(VECTORS))
    return {"chunks": len(plain), "dimension": plain.shape[1], "bytes": files.size}


def _save_table(chunk_ids: Sequence[str], vectors: Vectors, file: Path) -> None:
    """Write ids and vectors a group at a time: the vectors need not fit into memory."""
    dimension = vectors.shape[1]
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

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
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
