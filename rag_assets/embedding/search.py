"""Exact inner product search: faiss finds candidates in fp32, float64 decides score and order.

The fp32 inner product of two vectors of length 1 and dimension d is off by at most about
d * 2**-24, whatever the order of summation (Higham, Accuracy and Stability of Numerical Algorithms,
section 3.1, with Cauchy-Schwarz). So a chunk whose fp32 score is lower than the k-th exact score by
more cannot be among the best k, and the result depends neither on threads nor on block sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rag_assets.embedding.flat_index import FlatIndex
from rag_assets.embedding.unit_vectors import LENGTH_TOLERANCE, Vectors, check_unit_rows
from rag_assets.errors import DataError, UsageError
from rag_assets.ordering import Hits, Positions, top_k

BLOCK = 256
"""Queries that faiss is given at once, and between two reports of progress."""

MARGIN = 32
"""Candidates beyond k: few enough to be cheap, enough for ordinary score gaps."""


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
    for start in range(0, len(query_vectors), block):
        found += _search_block(index, query_vectors[start : start + block], k)
        if progress is not None:
            progress(len(found))
    return found


def _search_block(index: FlatIndex, queries: Vectors, k: int) -> list[Hits]:
    import faiss

    fetched = min(k + MARGIN, len(index.chunk_ids))
    # The kernel of IndexFlatIP, without the index's own copy of the vectors.
    scores, positions = faiss.knn(
        np.ascontiguousarray(queries), index.vectors, fetched, metric=faiss.METRIC_INNER_PRODUCT
    )
    return [
        _exact_hits(index, query, candidates, float(lowest), k)
        for query, candidates, lowest in zip(queries, positions, scores.min(axis=1), strict=True)
    ]


def _exact_hits(
    index: FlatIndex,
    query: npt.NDArray[np.float32],
    candidates: Positions,
    lowest: float,
    k: int,
) -> Hits:
    """Return the exact hits of one query.

    Args:
        index: the index.
        query: shape (dimension,).
        candidates: the positions that faiss found.
        lowest: the fp32 score that no other chunk exceeds.
        k: hits at most.
    """
    scores = inner_products(index.vectors[candidates], query)
    if len(candidates) < len(index.chunk_ids):
        error = _rounding_error(len(query))
        kth_best = float(np.partition(scores, -k)[-k])
        if lowest + error >= kth_best:  # a chunk that faiss left out may belong to the best k
            candidates = np.flatnonzero(index.vectors @ query >= kth_best - error)
            scores = inner_products(index.vectors[candidates], query)
    best = top_k(scores, index.ids_rank[candidates], k)
    return Hits(candidates[best], scores[best])


def inner_products(vectors: Vectors, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the inner product of each row with ``query`` in float64, shape (n,).

    Products of two fp32 numbers are exact in float64; each row is summed by itself in one fixed
    order. A BLAS product would round equal rows differently, depending on where they stand.
    """
    products = vectors.astype(np.float64) * query.astype(np.float64)
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
