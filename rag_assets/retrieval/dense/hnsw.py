"""Approximate search by a graph (HNSW) beside the vectors of an index.

Malkov and Yashunin: Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical
Navigable Small World Graphs (2018), as faiss has it. ``m`` is how many neighbours a chunk is linked
to (twice as many in the lowest layer), ``ef_construction`` how many candidates are looked at for
each link, ``ef_search`` how many for a query.

What can be found is approximate: a search gives ``ef_search`` candidates, whatever the depth that
is asked for, so that a shorter list is the beginning of a longer one. Score and order among the
candidates are exact, in float64. The graph is built by one thread in the order of the chunks' ids,
with the fixed seed of faiss: equal vectors give an equal file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_assets.errors import StoreError, UsageError
from rag_assets.models.cache_fill import Vectors, checked_lengths
from rag_assets.ordering import Hits, Positions, byte_order_ranks
from rag_assets.retrieval.base import Searcher
from rag_assets.retrieval.dense.vector_index import (
    BLOCK,
    Similarity,
    VectorIndex,
    dense_matrix,
    save_vectors,
)

GRAPH_FILE = "hnsw.faiss"


@dataclass(frozen=True)
class HnswIndex(Searcher[pa.Table]):
    """Vectors that are searched approximately, by a graph.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        vectors: the same chunks, to be searched exactly.
        graph: faiss's index; it needs ``storage``, which is kept here for it.
        storage: faiss's copy of the vectors.
        ef_search: candidates of a query.
    """

    chunk_ids: tuple[str, ...]
    vectors: VectorIndex
    graph: Any
    storage: Any
    ef_search: int

    @classmethod
    def load(cls, folder: Path, similarity: Similarity, ef_search: int) -> HnswIndex:
        """Open what ``save_graph`` wrote."""
        faiss, index = _faiss(), VectorIndex.load(folder, similarity)
        try:
            graph = faiss.read_index(str(folder / GRAPH_FILE))
        except RuntimeError as error:
            what = str(error).splitlines()[0]
            raise StoreError(f"graph {folder / GRAPH_FILE} cannot be read: {what}") from error
        if graph.ntotal != len(index.chunk_ids) or graph.metric_type != _metric(similarity):
            raise StoreError(
                f"embedding index {folder} is damaged: {len(index.chunk_ids)} ids, and a graph of "
                f"{graph.ntotal} chunks"
            )
        storage = faiss.IndexFlat(graph.d, graph.metric_type)
        if len(index.vectors):
            storage.add(np.ascontiguousarray(index.vectors))
        graph.storage, graph.own_fields = storage, False
        return cls(index.chunk_ids, index, graph, storage, ef_search)

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        return self.nearest(dense_matrix(queries), depth, progress)

    def nearest(
        self, queries: Vectors, k: int, progress: Callable[[int], None] | None = None
    ) -> list[Hits]:
        """Return for each query the best ``k`` of the chunks that the graph leads to."""
        if k < 1:
            raise UsageError(f"k is {k}; it must be at least 1")
        if not self.chunk_ids or not len(queries):
            return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in range(len(queries))]
        self.vectors.check(queries)
        parameters = _faiss().SearchParametersHNSW(efSearch=self.ef_search)
        fetched = min(self.ef_search, len(self.chunk_ids))
        hits: list[Hits] = []
        for start in range(0, len(queries), BLOCK):
            block = np.ascontiguousarray(queries[start : start + BLOCK])
            _, found = self.graph.search(block, fetched, params=parameters)
            for query, positions in zip(block, found, strict=True):  # -1: there are no more
                hits.append(self.vectors.ranked(query, positions[positions >= 0], k))
            if progress is not None:
                progress(len(hits))
        return hits

    def restricted_to(self, positions: Positions) -> VectorIndex:
        return self.vectors.restricted_to(positions)


def save_graph(
    chunk_ids: Sequence[str],
    vectors: Vectors,
    folder: Path,
    *,
    similarity: Similarity,
    m: int,
    ef_construction: int,
) -> dict[str, Any]:
    """Write vectors, ordered by id, and their graph into an existing folder."""
    faiss = _faiss()
    order = np.argsort(byte_order_ranks(chunk_ids))
    ids = [chunk_ids[row] for row in order]
    ordered = np.ascontiguousarray(vectors[order], dtype=np.float32)
    facts = save_vectors(ids, ordered, folder)
    checked_lengths(ordered, lambda row: f"chunk '{ids[row]}'")
    graph = faiss.IndexHNSWFlat(max(ordered.shape[1], 1), m, _metric(similarity))
    graph.hnsw.efConstruction = ef_construction
    # Several threads would link chunks in the order in which they happen to be done.
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        graph.add(ordered.reshape(len(ids), -1) if ids else np.empty((0, graph.d), np.float32))
    finally:
        faiss.omp_set_num_threads(threads)
    # The vectors lie beside it already.
    faiss.write_index(graph, str(folder / GRAPH_FILE), faiss.IO_FLAG_SKIP_STORAGE)
    return {**facts, "graph_bytes": (folder / GRAPH_FILE).stat().st_size}


def _metric(similarity: Similarity) -> int:
    """Return what a graph compares by: the cosine is the inner product of unit vectors."""
    faiss = _faiss()
    metric: int = faiss.METRIC_L2 if similarity == "euclidean" else faiss.METRIC_INNER_PRODUCT
    return metric


def _faiss() -> Any:  # noqa: ANN401 (its published types lack what is used here)
    import faiss

    return faiss
