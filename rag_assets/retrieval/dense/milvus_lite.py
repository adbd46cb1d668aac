"""``type: milvus_lite``: the engine of Milvus Lite in this process, which searches by faiss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Positions
from rag_assets.retrieval.dense.engine_search import Found, Scores, Similarity
from rag_assets.retrieval.dense.search import one_thread
from rag_assets.retrieval.dense.vector_engine import DatabaseRetriever

METRICS: Mapping[Similarity, str] = {"cosine": "COSINE", "dot": "IP", "euclidean": "L2"}
"""What Milvus calls them."""

COLLECTION, POSITION, VECTOR = "chunks", "position", "vector"

ROWS_AT_ONCE = 1_000

OF_GRAPH = ("m", "ef_construction", "ef_search")
OF_PARTITIONS = ("partitions", "probes")


class MilvusLite(DatabaseRetriever):
    """Embedding retrieval by Milvus Lite in this process, the package ``milvus-lite``.

    ``hnsw`` follows a graph and ``ivf_flat`` looks at the ``probes`` nearest of so many
    ``partitions``; ``hnsw_sq`` and ``ivf_sq8`` do so with 8 bits a number, and their scores are
    those of the compressed vectors. ``flat`` is exact. A graph looks at ``ef_search`` chunks: no
    query has more results. Milvus calls them ``M``, ``efConstruction``, ``ef``, ``nlist`` and
    ``nprobe``.
    """

    search_kind: ClassVar[str | None] = "milvus"
    search_options: ClassVar[frozenset[str]] = frozenset({"ef_search", "probes"})
    package: ClassVar[str] = "milvus-lite"
    module: ClassVar[str] = "milvus_lite"

    type: Literal["milvus_lite"]
    index: Literal["hnsw", "hnsw_sq", "ivf_flat", "ivf_sq8", "flat"] = "hnsw"
    m: Annotated[int, Field(ge=2, le=256, strict=True)] = 16
    ef_construction: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 200
    ef_search: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 64
    partitions: Annotated[int, Field(ge=1, le=65_536, strict=True)] = 128
    probes: Annotated[int, Field(ge=1, le=65_536, strict=True)] = 10

    @model_validator(mode="after")
    def _belongs_to_the_index(self) -> Self:
        others = (() if self.is_graph else OF_GRAPH) + (() if self.has_lists else OF_PARTITIONS)
        given = [name for name in others if name in self.model_fields_set]
        if given:
            kinds = "hnsw and hnsw_sq" if given[0] in OF_GRAPH else "ivf_flat and ivf_sq8"
            raise ValueError(f"{given[0]} belongs to index: {kinds}")
        return self

    @property
    def is_graph(self) -> bool:
        """Whether the index is a graph."""
        return self.index.startswith("hnsw")

    @property
    def has_lists(self) -> bool:
        """Whether the index has partitions."""
        return self.index.startswith("ivf")

    def most_results(self) -> tuple[str, int] | None:
        """Return ``ef_search`` of a graph."""
        return ("ef_search", self.ef_search) if self.is_graph else None

    def create(self, positions: Positions, vectors: Vectors, folder: Path) -> Mapping[str, Any]:
        """Write a collection and its index; one thread, so that equal vectors give equal ones."""
        library = self.library()
        fields = [
            library.FieldSchema(POSITION, library.DataType.INT64, is_primary=True),
            library.FieldSchema(VECTOR, library.DataType.FLOAT_VECTOR, dim=vectors.shape[1]),
        ]
        parameters: dict[str, int] = {}
        if self.is_graph:
            parameters = {"M": self.m, "efConstruction": self.ef_construction}
        elif self.has_lists:
            parameters = {"nlist": self.partitions}
        index = {
            "index_type": self.index.upper(),
            "metric_type": METRICS[self.similarity],
            "params": parameters,
        }
        with one_thread(), library.MilvusLite(str(folder)) as database:
            schema = library.CollectionSchema(fields=fields)
            collection = database.create_collection(COLLECTION, schema)
            for start in range(0, len(positions), ROWS_AT_ONCE):
                part = slice(start, start + ROWS_AT_ONCE)
                rows = zip(positions[part].tolist(), vectors[part].tolist(), strict=True)
                collection.insert([{POSITION: row, VECTOR: vector} for row, vector in rows])
            collection.flush()
            collection.create_index(VECTOR, index)
            collection.load()
        return {}

    def connect(self, folder: Path) -> tuple[MilvusCollection, Callable[[], object]]:
        """Open the collection."""
        database = self.library().MilvusLite(str(folder))
        collection = database.get_collection(COLLECTION)
        collection.load()
        parameters: dict[str, int] = {}
        if self.is_graph:
            parameters = {"ef": self.ef_search}
        elif self.has_lists:
            parameters = {"nprobe": self.probes}
        opened = MilvusCollection(
            collection,
            self.similarity,
            parameters,
            self.ef_search if self.is_graph else None,
            rescored=self.index in ("hnsw", "ivf_flat", "flat"),
        )
        return opened, database.close


@dataclass(frozen=True)
class MilvusCollection:
    """A collection of Milvus Lite.

    Attributes:
        collection: theirs.
        similarity: what it is searched by.
        parameters: of a search, by Milvus's names.
        candidates: chunks that a search looks at, of a graph.
        rescored: whether scores are those of whole vectors.
    """

    collection: Any
    similarity: Similarity
    parameters: Mapping[str, int]
    candidates: int | None
    rescored: bool

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return int(self.collection.num_entities)

    def nearest(self, queries: Vectors, limit: int) -> Sequence[Found]:
        """Return what Milvus Lite finds for each query."""
        answer = self.collection.search(
            queries.tolist(),
            top_k=limit,
            metric_type=METRICS[self.similarity],
            output_fields=[POSITION],
            search_params=dict(self.parameters),
        )
        return [
            Found(
                np.array([hit["id"] for hit in hits], dtype=np.int64),
                _scores(np.array([hit["distance"] for hit in hits], np.float64), self.similarity),
            )
            for hits in answer
        ]


def _scores(distances: Scores, similarity: Similarity) -> Scores:
    """Return scores; ``L2`` is the square of the distance, the others are similarities."""
    if similarity == "euclidean":
        squares: Scores = -np.sqrt(np.maximum(distances, 0.0))
        return squares
    return distances
