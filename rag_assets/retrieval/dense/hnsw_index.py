"""Approximate search by a graph (HNSW) beside the vectors of a flat index.

Malkov and Yashunin: Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical
Navigable Small World Graphs (2018), as faiss has it. ``m`` is how many neighbours a chunk is linked
to (twice as many in the lowest layer), ``ef_construction`` how many candidates are looked at for
each link, ``ef_search`` how many for a query.

What can be found is approximate: a search gives ``ef_search`` candidates, whatever the depth that
is asked for, so that a shorter list is the beginning of a longer one. Score and order among the
candidates are exact, in float64, as in a flat index. The graph is built by one thread in the order
of the chunks' ids, with the fixed seed of faiss: equal vectors give an equal file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.models.unit_vectors import Vectors, checked_lengths
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.dense import flat_index
from rag_assets.retrieval.dense.exact import BLOCK, ExactSearcher, exact_scores
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.dense.query_vectors import dense_matrix

GRAPH_FILE = "hnsw.faiss"

Measure = Literal["dot", "euclidean"]


@dataclass(frozen=True)
class HnswIndex:
    """Chunks, their vectors, and the graph over them.

    Attributes:
        flat: ids and vectors; the graph counts in their order.
        graph: faiss's index; it needs ``storage``, which is kept here for it.
        storage: faiss's copy of the vectors.
        measure: ``dot`` (the cosine, where vectors have length 1) or ``euclidean``.
    """

    flat: FlatIndex
    graph: Any
    storage: Any
    measure: Measure


@dataclass(frozen=True)
class HnswSearcher:
    """Vectors that are searched approximately, by a graph."""

    index: HnswIndex
    ef_search: int

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.flat.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector, ``ef_search`` of them at most."""
        return self.nearest(dense_matrix(queries), depth, progress)

    def nearest(
        self, queries: Vectors, k: int, progress: Callable[[int], None] | None = None
    ) -> list[Hits]:
        """Return for each query the best ``k`` of ``ef_search`` chunks that the graph leads to.

        Args:
            queries: float32, shape (queries, dimension of the index).
            k: hits a query at most.
            progress: called with the number of queries done so far.

        Raises:
            UsageError: ``k`` or ``ef_search`` is below 1.
            DataError: a query vector has another dimension, is not finite or too long.
        """
        index, ef_search = self.index, self.ef_search
        if k < 1 or ef_search < 1:
            raise UsageError(f"k is {k} and ef_search is {ef_search}; both must be at least 1")
        if not index.flat.chunk_ids or not len(queries):
            return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in range(len(queries))]
        if queries.ndim != 2 or queries.shape[1] != index.graph.d:
            problem = f"query vectors have shape {queries.shape}"
            raise DataError(f"{problem}; the index has dimension {index.graph.d}")
        checked_lengths(queries, lambda row: f"query {row}")
        hits: list[Hits] = []
        for start in range(0, len(queries), BLOCK):
            block = np.ascontiguousarray(queries[start : start + BLOCK], dtype=np.float32)
            for query, positions in zip(block, _candidates(index, block, ef_search), strict=True):
                hits.append(_hits(index, query, positions[positions >= 0], k))
            if progress is not None:
                progress(len(hits))
        return hits

    def restricted_to(self, positions: Positions) -> ExactSearcher:
        """Return an exact searcher of these chunks: the graph leads to too few of them."""
        return self.exact().restricted_to(positions)

    def exact(self) -> ExactSearcher:
        """Return an exact searcher of all chunks."""
        return ExactSearcher(self.index.flat, self.index.measure)


def build(
    chunk_ids: Sequence[str],
    vectors: Vectors,
    folder: Path,
    *,
    measure: Measure,
    m: int,
    ef_construction: int,
) -> dict[str, Any]:
    """Write vectors and graph into an existing folder.

    Args:
        chunk_ids: unique ids of the chunks.
        vectors: float32, shape (len(chunk_ids), dimension).
        folder: receives the files of a flat index, ordered by id, and ``hnsw.faiss``.
        measure: what the graph is of.
        m: links of a chunk.
        ef_construction: candidates for a link.

    Returns:
        The facts of the flat index, and ``graph_bytes``.

    Raises:
        DataError: shapes do not fit, an id occurs twice, or a vector is not finite or too long.
    """
    faiss = _faiss()
    order = np.argsort(byte_order_ranks(chunk_ids))
    ids = [chunk_ids[row] for row in order]
    ordered = np.ascontiguousarray(vectors[order], dtype=np.float32)
    facts = flat_index.save(ids, ordered, folder)
    checked_lengths(ordered, lambda row: f"chunk '{ids[row]}'")
    graph = faiss.IndexHNSWFlat(max(ordered.shape[1], 1), m, _metric(measure))
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


def load(folder: Path, measure: Measure) -> HnswIndex:
    """Open what ``build`` wrote.

    Raises:
        StoreError: the folder holds no such index, or its files do not fit together.
    """
    faiss = _faiss()
    flat = FlatIndex.load(folder)
    try:
        graph = faiss.read_index(str(folder / GRAPH_FILE))
    except RuntimeError as error:
        what = str(error).splitlines()[0]
        raise StoreError(f"graph {folder / GRAPH_FILE} cannot be read: {what}") from error
    if graph.ntotal != len(flat.chunk_ids) or graph.metric_type != _metric(measure):
        raise StoreError(
            f"embedding index {folder} is damaged: {len(flat.chunk_ids)} ids, and a graph of "
            f"{graph.ntotal} chunks"
        )
    storage = faiss.IndexFlat(graph.d, graph.metric_type)
    if len(flat.vectors):
        storage.add(np.ascontiguousarray(flat.vectors))
    graph.storage, graph.own_fields = storage, False
    return HnswIndex(flat, graph, storage, measure)


def _candidates(index: HnswIndex, queries: Vectors, ef_search: int) -> npt.NDArray[np.int64]:
    """Return positions, shape (queries, candidates); -1 where the graph leads to no more."""
    parameters = _faiss().SearchParametersHNSW(efSearch=ef_search)
    fetched = min(ef_search, len(index.flat.chunk_ids))
    positions: npt.NDArray[np.int64]
    _, positions = index.graph.search(queries, fetched, params=parameters)
    return positions


def _hits(
    index: HnswIndex, query: npt.NDArray[np.float32], candidates: npt.NDArray[np.int64], k: int
) -> Hits:
    scores = exact_scores(index.flat.vectors[candidates], query, index.measure)
    best = top_k(scores, index.flat.ids_rank[candidates], k)
    return Hits(candidates[best], scores[best])


def _metric(measure: Measure) -> int:
    faiss = _faiss()
    metric: int = faiss.METRIC_INNER_PRODUCT if measure == "dot" else faiss.METRIC_L2
    return metric


def _faiss() -> Any:  # noqa: ANN401 (its published types lack what is used here)
    import faiss

    return faiss
