"""An index of sparse vectors, and exact search by inner product.

The score is the sum over the components that query and chunk share, in float64, of the products of
their weights, added in the order of the components: equal vectors have equal scores, whatever
stands beside them. A chunk without a component of the query is no hit, as in any inverted index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.dense.index_ids import load_ids, save_ids
from rag_assets.store.sparse_vector_cache import SparseVector

COMPONENTS_FILE = "components.npy"
WEIGHTS_FILE = "weights.npy"
STARTS_FILE = "first_entries.npy"

SCORES_AT_ONCE = 4_000_000
"""Queries times chunks that are multiplied at once: the product may have no zeros."""


@dataclass(frozen=True)
class SparseIndex:
    """Chunks and their vectors.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        matrix: scipy CSR array of float64, shape (components, chunks).
    """

    chunk_ids: tuple[str, ...]
    matrix: Any

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)


def build(
    chunk_ids: Sequence[str], vectors: Sequence[SparseVector], folder: Path
) -> dict[str, Any]:
    """Write an index into an existing folder, ordered by id.

    Returns:
        Facts for the manifest: ``chunks``, ``bytes``, and ``mean_components`` of a chunk.

    Raises:
        DataError: an id occurs twice, or there is another number of vectors.
    """
    if len(chunk_ids) != len(vectors):
        raise DataError(f"{len(chunk_ids)} chunks, but {len(vectors)} vectors")
    order = np.argsort(byte_order_ranks(chunk_ids)).tolist()
    lengths = [len(vectors[row].components) for row in order]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    none = SparseVector(np.empty(0, np.int32), np.empty(0, np.float32))
    parts = [none, *(vectors[row] for row in order)]
    components = np.concatenate([part.components for part in parts]).astype(np.int32)
    weights = np.concatenate([part.weights for part in parts]).astype(np.float32)
    contents: dict[str, npt.NDArray[Any]] = {
        COMPONENTS_FILE: components,
        WEIGHTS_FILE: weights,
        STARTS_FILE: starts,
    }
    for name, content in contents.items():
        np.save(folder / name, content, allow_pickle=False)
    save_ids([chunk_ids[row] for row in order], folder)
    size = sum(content.nbytes for content in contents.values())
    mean = round(float(np.mean(lengths)), 3) if lengths else 0.0
    return {"chunks": len(lengths), "bytes": size, "mean_components": mean}


def load(folder: Path) -> SparseIndex:
    """Open what ``build`` wrote.

    Raises:
        StoreError: the folder holds no such index, or its files do not fit together.
    """
    from scipy.sparse import csr_array

    try:
        chunk_ids = load_ids(folder)
        names = (WEIGHTS_FILE, COMPONENTS_FILE, STARTS_FILE)
        weights, components, starts = (np.load(folder / n, allow_pickle=False) for n in names)
        shape = (len(chunk_ids), int(components.max(initial=-1)) + 1)
        by_chunk = csr_array((weights.astype(np.float64), components, starts), shape=shape)
        by_chunk.check_format(full_check=True)
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(f"sparse index {folder} cannot be read: {error}") from error
    return SparseIndex(chunk_ids, by_chunk.T.tocsr())


def search(
    index: SparseIndex,
    queries: Sequence[SparseVector],
    k: int,
    progress: Callable[[int], None] | None = None,
) -> list[Hits]:
    """Return for each query its ``k`` best chunks of those that share a component with it.

    Order: score descending, then id descending by UTF-8 bytes, exact at the cut.

    Args:
        index: the index.
        queries: their vectors.
        k: hits a query at most.
        progress: called with the number of queries done so far.

    Raises:
        UsageError: ``k`` is below 1.
    """
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    block = max(1, SCORES_AT_ONCE // max(len(index.chunk_ids), 1))
    found: list[Hits] = []
    for start in range(0, len(queries), block):
        product = _rows(queries[start : start + block], index.matrix.shape[0]) @ index.matrix
        for begin, end in zip(product.indptr, product.indptr[1:], strict=False):
            found.append(_hits(index, product.indices[begin:end], product.data[begin:end], k))
        if progress is not None:
            progress(len(found))
    return found


def _hits(
    index: SparseIndex, positions: npt.NDArray[Any], scores: npt.NDArray[np.float64], k: int
) -> Hits:
    shared = np.flatnonzero(scores)
    chunks = positions[shared].astype(np.int64)
    best = top_k(scores[shared], index.ids_rank[chunks], k)
    return Hits(chunks[best], scores[shared][best])


def _rows(queries: Sequence[SparseVector], n_components: int) -> Any:  # noqa: ANN401 (scipy)
    """Return a CSR array, shape (queries, n_components), without what no chunk has."""
    from scipy.sparse import csr_array

    known = [query.components < n_components for query in queries]
    components = [query.components[own] for query, own in zip(queries, known, strict=True)]
    weights = [query.weights[own] for query, own in zip(queries, known, strict=True)]
    starts = np.concatenate([[0], np.cumsum([len(own) for own in components])])
    data = np.concatenate(weights).astype(np.float64)
    shape = (len(queries), n_components)
    return csr_array((data, np.concatenate(components), starts), shape=shape)
