"""Opened indexes of vectors, as the embedding stages search them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rag_assets.ordering import Hits, Positions
from rag_assets.retrieval.dense import flat_index, hnsw_index, similarity_search
from rag_assets.retrieval.dense.query_vectors import dense_matrix
from rag_assets.retrieval.dense.search import search


@dataclass(frozen=True)
class FlatSearcher:
    """Vectors that are searched exactly."""

    index: flat_index.FlatIndex

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return search(self.index, dense_matrix(queries), depth, progress)

    def among(self, positions: Positions) -> FlatSearcher:
        """Return a searcher of these chunks: a score depends on no other vector."""
        return FlatSearcher(self.index.among(positions))


@dataclass(frozen=True)
class SimilaritySearcher:
    """Vectors of any length that are searched exactly."""

    space: similarity_search.Searchable

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.space.index.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return similarity_search.search(self.space, dense_matrix(queries), depth, progress)

    def among(self, positions: Positions) -> SimilaritySearcher:
        """Return a searcher of these chunks: a score depends on no other vector."""
        index = self.space.index.among(positions)
        return SimilaritySearcher(similarity_search.searchable(index, self.space.measure))


@dataclass(frozen=True)
class HnswSearcher:
    """Vectors that are searched approximately, by a graph."""

    index: hnsw_index.HnswIndex
    ef_search: int

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.flat.chunk_ids

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector, ``ef_search`` of them at most."""
        vectors = dense_matrix(queries)
        return hnsw_index.search(self.index, vectors, depth, progress, ef_search=self.ef_search)

    def among(self, positions: Positions) -> SimilaritySearcher:
        """Return an exact searcher of these chunks: the graph leads to too few of them."""
        index = self.index.flat.among(positions)
        return SimilaritySearcher(similarity_search.searchable(index, self.index.measure))

    def exact(self) -> SimilaritySearcher:
        """Return an exact searcher of all chunks."""
        index = self.index
        return SimilaritySearcher(similarity_search.searchable(index.flat, index.measure))
