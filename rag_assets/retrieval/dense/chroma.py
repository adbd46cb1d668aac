"""``type: chroma``: the graph (HNSW) of Chroma's engine in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Positions
from rag_assets.retrieval.dense.engine_search import Found, Similarity
from rag_assets.retrieval.dense.vector_engine import DatabaseRetriever

SPACES: Mapping[Similarity, str] = {"cosine": "cosine", "dot": "ip", "euclidean": "l2"}
"""What Chroma calls them."""

COLLECTION = "chunks"

BUFFER = 100
"""Vectors that Chroma keeps outside of the graph at most, by default."""


class Chroma(DatabaseRetriever):
    """Embedding retrieval by Chroma in this process, the package ``chromadb``.

    ``m`` is what Chroma calls ``max_neighbors``. A search looks at ``ef_search`` chunks: no query
    has more results. Score and order of what is found are exact.
    """

    search_kind: ClassVar[str | None] = "chroma"
    search_options: ClassVar[frozenset[str]] = frozenset({"ef_search"})
    package: ClassVar[str] = "chromadb"
    module: ClassVar[str] = "chromadb"

    type: Literal["chroma"]
    m: Annotated[int, Field(ge=2, le=256, strict=True)] = 16
    ef_construction: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 100
    ef_search: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 100

    def most_results(self) -> tuple[str, int] | None:
        """Return ``ef_search``."""
        return "ef_search", self.ef_search

    def create(self, positions: Positions, vectors: Vectors, folder: Path) -> Mapping[str, Any]:
        """Write a collection."""
        count = len(positions)
        hnsw = {
            "space": SPACES[self.similarity],
            "max_neighbors": self.m,
            "ef_construction": self.ef_construction,
            # All is in the graph when the last vector is: else a reader would link the rest anew.
            "sync_threshold": max(count, 2),
            "batch_size": max(min(count, BUFFER), 2),
        }
        client = self._client(folder)
        try:
            collection = client.create_collection(
                COLLECTION, embedding_function=None, configuration={"hnsw": hnsw}
            )
            most = client.get_max_batch_size()
            for start in range(0, count, most):
                part = slice(start, start + most)
                names = [str(position) for position in positions[part]]
                collection.add(ids=names, embeddings=vectors[part])
        finally:
            client.close()
        return {}

    def connect(self, folder: Path) -> tuple[ChromaCollection, Callable[[], object]]:
        """Open the collection."""
        client = self._client(folder)
        collection = client.get_collection(COLLECTION, embedding_function=None)
        collection.modify(configuration={"hnsw": {"ef_search": self.ef_search}})
        return ChromaCollection(collection, self.similarity, self.ef_search), client.close

    def _client(self, folder: Path) -> Any:  # noqa: ANN401 (theirs)
        library = self.library()
        silent = library.config.Settings(anonymized_telemetry=False)
        return library.PersistentClient(str(folder), silent)


@dataclass(frozen=True)
class ChromaCollection:
    """A collection of Chroma.

    Attributes:
        collection: theirs.
        similarity: what it is searched by.
        candidates: chunks that a search looks at.
    """

    collection: Any
    similarity: Similarity
    candidates: int
    rescored: ClassVar[bool] = True

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return int(self.collection.count())

    def nearest(self, queries: Vectors, limit: int) -> Sequence[Found]:
        """Return what Chroma finds for each query."""
        answer = self.collection.query(
            query_embeddings=queries, n_results=limit, include=["distances"]
        )
        return [
            Found(np.array(names, dtype=np.int64), -np.array(distances, dtype=np.float64))
            for names, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]
