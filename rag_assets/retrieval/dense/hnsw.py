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

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.errors import StoreError
from rag_assets.models.cache_fill import Vectors, checked_lengths
from rag_assets.ordering import Hits, byte_order_ranks
from rag_assets.retrieval.dense.vector_index import Similarity, VectorIndex, save_vectors

GRAPH_FILE = "hnsw.faiss"


@dataclass(frozen=True)
class HnswIndex(VectorIndex):
    """Vectors that are searched approximately, by a graph; a part of them exactly.

    Attributes:
        graph: faiss's index; it needs ``storage``, which is kept here for it.
        storage: faiss's copy of the vectors.
        ef_search: candidates of a query.
    """

    graph: Any = None
    storage: Any = None
    ef_search: int = 256

    @classmethod
    def load(
        cls, folder: Path, similarity: Similarity = "cosine", ef_search: int = 256
    ) -> HnswIndex:
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
        return cls(index.chunk_ids, index.vectors, similarity, graph, storage, ef_search)

    def prepare(self) -> None:
        """Do nothing: the graph has what it needs."""

    def best_of_block(self, queries: Vectors, k: int) -> list[Hits]:
        """Return for each query the best ``k`` of the chunks that the graph leads to."""
        parameters = _faiss().SearchParametersHNSW(efSearch=self.ef_search)
        fetched = min(self.ef_search, len(self.chunk_ids))
        block = np.ascontiguousarray(queries)
        _, candidates = self.graph.search(block, fetched, params=parameters)
        pairs = zip(block, candidates, strict=True)  # -1: there are no more
        return [self.ranked(query, positions[positions >= 0], k) for query, positions in pairs]


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
