"""Search by Qdrant: by its engine in this process, or in a collection of a server."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from rag_assets.errors import DataError, NotServed, UsageError
from rag_assets.models.unit_vectors import Vectors
from rag_assets.retrieval.dense.engine_search import EngineIndex, Found
from rag_assets.retrieval.dense.exact import Similarity
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.servers.failures import ServerFailure, answered
from rag_assets.servers.secrets import Secrets
from rag_assets.servers.transport import Server, Transport

Result = TypeVar("Result")

DISTANCES: Mapping[Similarity, str] = {"cosine": "Cosine", "dot": "Dot", "euclidean": "Euclid"}
"""What Qdrant calls them."""

MISSING = "type qdrant needs the package qdrant-client: pip install 'rag-assets[qdrant]'"

OWN = "chunks"
"""The collection of the engine in this process."""

POINTS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Collection:
    """Where points are, and how they are searched.

    Attributes:
        client: a ``QdrantClient``.
        name: of the collection.
        similarity: what scores are; a Euclidean distance becomes its negative.
        points: how many there are.
        vector: which of the vectors of a point; None: the one without a name.
        id_field: of the payload, which names the chunk; None: the point's number is its position.
        ef_search: candidates in the graph of a server; None: there is no graph.
        exact: whether the server goes past its graph.
        secrets: what the server must not repeat.
    """

    client: Any
    name: str
    similarity: Similarity
    points: int
    vector: str | None = None
    id_field: str | None = None
    ef_search: int | None = None
    exact: bool = False
    secrets: Secrets = field(default_factory=lambda: Secrets(()))

    def nearest(self, queries: Vectors, limit: int) -> list[list[Any]]:
        """Return the points that the engine finds for each query, best first.

        Raises:
            NotServed: the server does not answer as it should.
        """
        models = _models()
        asked = [
            models.QueryRequest(
                query=query.tolist(),
                limit=limit,
                using=self.vector,
                with_payload=False if self.id_field is None else [self.id_field],
                params=models.SearchParams(hnsw_ef=self.ef_search, exact=self.exact)
                if self.id_field is not None
                else None,
            )
            for query in queries
        ]

        def ask() -> list[list[Any]]:
            found = [one.points for one in self.client.query_batch_points(self.name, asked)]
            if len(found) != len(queries):
                raise ValueError(f"{len(found)} lists of points for {len(queries)} queries")
            if not all(math.isfinite(point.score) for points in found for point in points):
                raise ValueError("a score is not a finite number")
            return found

        return answer_of(ask, self.name, self.secrets)


@dataclass(frozen=True)
class QdrantEngine:
    """A collection whose points are of chunks, by their positions.

    Attributes:
        collection: what is searched.
        chunk_ids: ids of the chunks; positions refer to this order.
    """

    collection: Collection
    chunk_ids: Sequence[str]

    @property
    def count(self) -> int:
        """How many points there are."""
        return self.collection.points

    @property
    def candidates(self) -> int | None:
        """Fixed candidate count (ef) of a graph search; None: exact."""
        return self.collection.ef_search

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Chunk id -> position."""
        return {name: position for position, name in enumerate(self.chunk_ids)}

    def nearest(self, queries: Vectors, limit: int) -> Sequence[Found]:
        """Return the chunks of the points that Qdrant finds for each query.

        Raises:
            NotServed: the server does not answer as it should.
            DataError: a point belongs to no chunk.
        """
        sign = -1.0 if self.collection.similarity == "euclidean" else 1.0
        return [
            Found(
                np.array([self._position_of(point) for point in points], np.int64),
                sign * np.array([point.score for point in points], np.float64),
            )
            for points in self.collection.nearest(queries, limit)
        ]

    def _position_of(self, point: Any) -> int:  # noqa: ANN401 (their model)
        field = self.collection.id_field
        if field is None:
            return int(point.id)
        named = (point.payload or {}).get(field)
        position = self.positions.get(named) if isinstance(named, str) else None
        if position is None:
            place = f"point {point.id} of the collection '{self.collection.name}' of Qdrant"
            raise DataError(f"{place} has {field} = {named!r}, which is not the id of a chunk")
        return position


def embedded(index: FlatIndex, similarity: Similarity) -> EngineIndex:
    """Return an index whose vectors are in Qdrant's engine of this process.

    Raises:
        UsageError: the package ``qdrant-client`` is not installed.
    """
    client, models = _client()(":memory:"), _models()
    size = max(index.vectors.shape[1], 1)
    distance = models.Distance(DISTANCES[similarity])
    client.create_collection(OWN, models.VectorParams(size=size, distance=distance))
    with warnings.catch_warnings():
        # That a server is faster for many points.
        warnings.simplefilter("ignore", UserWarning)
        for start in range(0, len(index.chunk_ids), POINTS_AT_ONCE):
            part = index.vectors[start : start + POINTS_AT_ONCE]
            numbers = list(range(start, start + len(part)))
            client.upsert(OWN, models.Batch(ids=numbers, vectors=part.tolist()))
    collection = Collection(client, OWN, similarity, len(index.chunk_ids))
    engine = QdrantEngine(collection, index.chunk_ids)
    return EngineIndex(index.chunk_ids, engine, similarity, index)


def connected(server: Server) -> Any:  # noqa: ANN401 (their client)
    """Return a client of a server, which gets to know no key.

    Raises:
        UsageError: the package ``qdrant-client`` is not installed.
    """
    opened = _client()
    import httpx

    return opened(
        url=server.place,
        timeout=max(round(server.timeout), 1),
        transport=Transport(httpx, server),
        trust_env=False,
        # Asking for the version starts a thread that prints.
        check_compatibility=False,
    )


def described(
    client: Any,  # noqa: ANN401
    name: str,
    vector: str | None,
    secrets: Secrets,
) -> dict[str, Any]:
    """Return ``points``, ``dimension``, ``distance`` and ``ef_construct`` of a collection.

    Raises:
        NotServed: the server does not answer, or has no such collection.
        DataError: the collection has no such vector.
    """
    found = answer_of(lambda: client.get_collection(name), name, secrets)
    vectors = found.config.params.vectors
    params = vectors.get(vector or "") if isinstance(vectors, dict) else vectors
    if params is None or (vector and not isinstance(vectors, dict)):
        known = ", ".join(sorted(vectors)) if isinstance(vectors, dict) else "one without a name"
        raise DataError(f"collection '{name}' of Qdrant has no vector '{vector}'; it has {known}")
    return {
        "points": int(found.points_count or 0),
        "dimension": int(params.size),
        "distance": str(params.distance.value),
        "ef_construct": int(found.config.hnsw_config.ef_construct),
    }


def answer_of(ask: Callable[[], Result], collection: str, secrets: Secrets) -> Result:
    """Return what a server answers.

    Raises:
        NotServed: it cannot be reached, or refuses.
    """
    try:
        return answered(ask, secrets)
    except ServerFailure as error:
        failure = error
    raise NotServed(f"Qdrant, collection '{collection}': {failure}")


def _client() -> Any:  # noqa: ANN401
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise UsageError(MISSING) from error
    return QdrantClient


def _models() -> Any:  # noqa: ANN401
    from qdrant_client import models

    return models
