"""Opened indexes of vectors, as the embedding stages search them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rag_assets.embedding import flat_index, hnsw_index, similarity_search
from rag_assets.embedding.query_vectors import dense_matrix
from rag_assets.embedding.search import search
from rag_assets.ordering import Hits


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
