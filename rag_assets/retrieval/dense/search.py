"""Exact inner product search: faiss finds candidates in fp32, float64 decides score and order.

The fp32 inner product of two vectors of length 1 and dimension d is off by at most about
d * 2**-24, whatever the order of summation (Higham, Accuracy and Stability of Numerical Algorithms,
section 3.1, with Cauchy-Schwarz). So a chunk whose fp32 score is lower than the k-th exact score by
more cannot be among the best k, and the result depends neither on threads nor on block sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import DataError, UsageError
from rag_assets.models.unit_vectors import LENGTH_TOLERANCE, Vectors, check_unit_rows
from rag_assets.ordering import Hits, Positions, top_k
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.dense.query_vectors import dense_matrix
from rag_assets.retrieval.retriever import IndexSearcher

BLOCK = 256
"""Queries that faiss is given at once, and between two reports of progress."""

MARGIN = 32
"""Candidates beyond k: few enough to be cheap, enough for ordinary score gaps."""

MATRIX_FROM = 4_000
"""Numbers of the queries of a block from which faiss multiplies matrices; changes speed only."""

SMALLEST_SHARE = 16
"""Fewer queries are not worth a thread of their own: each reads all vectors."""

PAIRS = 1024
"""Queries and candidates that are scored at once in float64: 3 MB of 384 dimensions."""


@dataclass(frozen=True)
class FlatSearcher(IndexSearcher[FlatIndex]):
    """Vectors that are searched exactly."""

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return search(self.index, dense_matrix(queries), depth, progress)

    def among(self, positions: Positions) -> FlatSearcher:
        """Return a searcher of these chunks: a score depends on no other vector."""
        return FlatSearcher(self.index.among(positions))


def search(
    index: FlatIndex,
    query_vectors: Vectors,
    k: int,
    progress: Callable[[int], None] | None = None,
    *,
    block: int = BLOCK,
) -> list[Hits]:
    """Return for each query its ``k`` best chunks; all chunks when there are fewer.

    Order: score descending, then id descending by UTF-8 bytes, exact at the cut. The score is the
    inner product in float64, which is the cosine.

    Args:
        index: the index.
        query_vectors: float32, shape (queries, dimension of the index), rows of length 1.
        k: hits a query at most.
        progress: called now and then, and at the end, with the number of queries done so far.
        block: queries a call of faiss; changes speed only.

    Raises:
        UsageError: ``k`` or ``block`` is below 1.
        DataError: a query vector has another dimension, NaN, or another length than 1.
    """
    if k < 1 or block < 1:
        raise UsageError(f"k is {k} and block is {block}; both must be at least 1")
    if not index.chunk_ids or not len(query_vectors):
        return [_no_hits() for _ in range(len(query_vectors))]
    _check_queries(index, query_vectors)
    found: list[Hits] = []
    with matrix_products(), closing(_blocks_of_hits(index, query_vectors, k, block)) as blocks:
        for hits in blocks:
            found += hits
            if progress is not None:
                progress(len(found))
    return found


@contextmanager
def matrix_products() -> Iterator[None]:
    """Let faiss multiply matrices for few queries too.

    Since 1.15 it takes one query after another up to 128,000 numbers, 333 queries of 384
    dimensions, which fits where it has dozens of threads (faiss, pull requests 5022 and 5109). One
    thread is five times faster by matrices, from about ten queries on.
    """
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = MATRIX_FROM
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


@contextmanager
def one_thread() -> Iterator[None]:
    """Let faiss use one thread where it is called from this one."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _blocks_of_hits(
    index: FlatIndex, query_vectors: Vectors, k: int, block: int
) -> Generator[list[Hits], None, None]:
    """Yield the hits of one block of queries after another; several are searched at a time.

    Each thread has queries of its own and runs faiss on itself alone. The threads of faiss wait
    for one another at every 1,024 chunks, and stand still whenever the machine does something else.
    """
    import faiss

    threads = faiss.omp_get_max_threads()
    size = min(block, max(SMALLEST_SHARE, -(-len(query_vectors) // threads)))
    blocks = [query_vectors[at : at + size] for at in range(0, len(query_vectors), size)]
    if len(blocks) == 1:
        with one_thread():
            yield _search_block(index, blocks[0], k)
        return
    with ThreadPoolExecutor(threads, initializer=partial(faiss.omp_set_num_threads, 1)) as pool:
        waiting = [pool.submit(_search_block, index, queries, k) for queries in blocks]
        try:
            for one in waiting:
                yield one.result()
        finally:
            for one in waiting:
                one.cancel()


def _search_block(index: FlatIndex, queries: Vectors, k: int) -> list[Hits]:
    import faiss

    n_chunks = len(index.chunk_ids)
    # The kernel of IndexFlatIP, without the index's own copy of the vectors.
    scores, positions = faiss.knn(
        np.ascontiguousarray(queries),
        index.vectors,
        min(k + MARGIN, n_chunks),
        metric=faiss.METRIC_INNER_PRODUCT,
    )
    if k >= n_chunks:
        return _best(index, queries, positions, np.ones(positions.shape, dtype=np.bool_), k)
    error = _rounding_error(queries.shape[1])
    # The best k of faiss score at least its k-th score - error: so does the exact k-th.
    lowest = scores[:, k - 1 : k].astype(np.float64) - 2 * error
    hits = _best(index, queries, positions, scores >= lowest, k)
    if positions.shape[1] < n_chunks:
        for row in np.flatnonzero(scores[:, -1] >= lowest[:, 0]):
            # A chunk that faiss left out may belong to the best k.
            at_least = float(hits[row].scores[-1]) - error
            hits[row] = _best_that_reach(index, queries[row], at_least, k)
    return hits


def _best_that_reach(
    index: FlatIndex, query: npt.NDArray[np.float32], at_least: float, k: int
) -> Hits:
    """Return the best of all chunks whose fp32 score is ``at_least`` this."""
    candidates = np.flatnonzero(index.vectors @ query >= at_least)
    scores = inner_products(index.vectors[candidates], query)
    best = top_k(scores, index.ids_rank[candidates], k)
    return Hits(candidates[best], scores[best])


def _best(
    index: FlatIndex,
    queries: Vectors,
    positions: npt.NDArray[np.int64],
    reaches: npt.NDArray[np.bool_],
    k: int,
) -> list[Hits]:
    """Return the exact hits among candidates, for all queries of a block at once.

    Args:
        index: the index.
        queries: shape (queries, dimension).
        positions: candidates of each query, shape (queries, candidates).
        reaches: which of them can be hits, of the same shape.
        k: hits a query at most.
    """
    of_query = np.nonzero(reaches)[0]
    candidates = positions[reaches]
    scores = np.empty(len(candidates), dtype=np.float64)
    for start in range(0, len(scores), PAIRS):
        part = slice(start, start + PAIRS)
        scores[part] = inner_products(index.vectors[candidates[part]], queries[of_query[part]])
    order = np.lexsort((-scores, of_query))
    same = (np.diff(scores[order]) == 0) & (np.diff(of_query[order]) == 0)
    if same.any():  # the ids of a large index take a second to order
        order = np.lexsort((-index.ids_rank[candidates], -scores, of_query))
    counts = np.bincount(of_query, minlength=len(queries))
    ends = np.cumsum(counts)
    kept = [order[end - n : end][:k] for end, n in zip(ends, counts, strict=True)]
    return [Hits(candidates[own], scores[own]) for own in kept]


def inner_products(vectors: Vectors, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the inner product of each row with ``query`` in float64, shape (n,).

    ``query`` is one vector, or one for each row.

    Products of two fp32 numbers are exact in float64; each row is summed by itself in one fixed
    order. A BLAS product would round equal rows differently, depending on where they stand.
    """
    products = np.multiply(vectors, query, dtype=np.float64)
    totals: npt.NDArray[np.float64] = products.sum(axis=1)
    return totals


def _rounding_error(dimension: int) -> float:
    """Return a bound of the error of an fp32 inner product of two rows of length about 1."""
    return float((dimension + 2) * 2.0**-24 * (1.0 + LENGTH_TOLERANCE) ** 2 * 1.01)


def _check_queries(index: FlatIndex, query_vectors: Vectors) -> None:
    dimension = index.vectors.shape[1]
    if query_vectors.ndim != 2 or query_vectors.shape[1] != dimension:
        raise DataError(
            f"query vectors have shape {query_vectors.shape}; the index has dimension {dimension}"
        )
    if query_vectors.dtype != np.float32:
        raise DataError(f"query vectors are {query_vectors.dtype}; they must be float32")
    check_unit_rows(query_vectors, lambda row: f"query {row}")


def _no_hits() -> Hits:
    return Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))
