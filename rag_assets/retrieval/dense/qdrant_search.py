"""Search by Qdrant: by its engine in this process, or in a collection of a server.

An engine gives so many hits and cuts ties as it likes, so it is asked for more than are wanted,
until the last of them scores lower than the last that is wanted: then order and cut are ours.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from rag_assets.errors import DataError, NotServed, UsageError
from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.dense.search import MARGIN, inner_products
from rag_assets.retrieval.dense.similarity_search import squared_distances
from rag_assets.servers.failures import ServerFailure, answered
from rag_assets.servers.secrets import Secrets
from rag_assets.servers.transport import Server, Transport

Similarity = Literal["cosine", "dot", "euclidean"]
Scores = npt.NDArray[np.float64]
Result = TypeVar("Result")

DISTANCES: Mapping[Similarity, str] = {"cosine": "Cosine", "dot": "Dot", "euclidean": "Euclid"}
"""What Qdrant calls them."""

OWN = "chunks"
"""The collection of the engine in this process."""

MISSING = "type qdrant needs the package qdrant-client: pip install 'rag-assets[qdrant]'"

QUERIES_AT_ONCE = 64
POINTS_AT_ONCE = 1_000
FP32_TOLERANCE = 1e-4
"""How far the scores of the engine in this process may be from exact ones, relatively."""


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
        ef_search: candidates in the graph of a server; None: what the collection has.
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
                raise ValueError("a score is no finite number")
            return found

        return answer_of(ask, self.name, self.secrets)


@dataclass(frozen=True)
class QdrantIndex:
    """Chunks, and the collection that finds them.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        collection: what is searched.
        flat: the vectors of the chunks where they are known: scores are then exact, in float64.
    """

    chunk_ids: Sequence[str]
    collection: Collection
    flat: FlatIndex | None = None

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Chunk id -> position."""
        return {name: position for position, name in enumerate(self.chunk_ids)}

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    def position_of(self, point: Any) -> int:  # noqa: ANN401 (their model)
        """Return the chunk of a point.

        Raises:
            DataError: its payload names none of the chunks.
        """
        field = self.collection.id_field
        if field is None:
            return int(point.id)
        named = (point.payload or {}).get(field)
        position = self.positions.get(named) if isinstance(named, str) else None
        if position is None:
            place = f"point {point.id} of the collection '{self.collection.name}' of Qdrant"
            raise DataError(f"{place} has {field} = {named!r}, which is the id of no chunk")
        return position


def embedded(index: FlatIndex, similarity: Similarity) -> QdrantIndex:
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
    return QdrantIndex(index.chunk_ids, collection, index)


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
    """Return ``points``, ``dimension`` and ``distance`` of a collection.

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
    }


def search(
    index: QdrantIndex,
    query_vectors: Vectors,
    k: int,
    progress: Callable[[int], None] | None = None,
) -> list[Hits]:
    """Return for each query the best ``k`` chunks that the engine finds.

    Order: score descending, then id descending by UTF-8 bytes. Of several points of a chunk the
    best counts.

    Raises:
        UsageError: ``k`` is below 1.
        NotServed: the server does not answer as it should.
        DataError: a point belongs to no chunk.
    """
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    found: list[Hits] = []
    for start in range(0, len(query_vectors), QUERIES_AT_ONCE):
        queries = query_vectors[start : start + QUERIES_AT_ONCE]
        found += _search_block(index, queries, k)
        if progress is not None:
            progress(len(found))
    return found


def _search_block(index: QdrantIndex, queries: Vectors, k: int) -> list[Hits]:
    collection = index.collection
    if not collection.points:
        return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in queries]
    limit = min(k + MARGIN, collection.points)
    hits = []
    for query, points in zip(queries, collection.nearest(queries, limit), strict=True):
        asked, best = limit, _best_of(index, points)
        while not _is_complete(index, points, best, k, asked):
            asked = min(4 * asked, collection.points)
            points = collection.nearest(query[None], asked)[0]
            best = _best_of(index, points)
        hits.append(_hits(index, query, best, k))
    return hits


def _best_of(index: QdrantIndex, points: Sequence[Any]) -> dict[int, float]:
    """Return position -> score, the higher the better."""
    sign = -1.0 if index.collection.similarity == "euclidean" else 1.0
    best: dict[int, float] = {}
    for point in points:
        best.setdefault(index.position_of(point), sign * float(point.score))
    return best


def _is_complete(
    index: QdrantIndex, points: Sequence[Any], best: Mapping[int, float], k: int, asked: int
) -> bool:
    """Return whether nothing that the engine left out can be among the best k."""
    if len(points) < asked or asked >= index.collection.points:
        return True
    scores = sorted(best.values(), reverse=True)
    if len(scores) <= k:
        return False
    error = FP32_TOLERANCE * max(1.0, abs(scores[0]), abs(scores[-1])) if index.flat else 0.0
    return scores[-1] < scores[k - 1] - error


def _hits(
    index: QdrantIndex, query: npt.NDArray[np.float32], best: Mapping[int, float], k: int
) -> Hits:
    candidates = np.fromiter(best, np.int64, len(best))
    scores = np.fromiter(best.values(), np.float64, len(best))
    if index.flat is not None:
        scores = _exact(index.flat.vectors[candidates], query, index.collection.similarity)
    order = top_k(scores, index.ids_rank[candidates], k)
    return Hits(candidates[order], scores[order])


def _exact(vectors: Vectors, query: npt.NDArray[np.float32], similarity: Similarity) -> Scores:
    if similarity == "euclidean":
        distances: Scores = -np.sqrt(squared_distances(vectors, query))
        return distances
    return inner_products(vectors, query)


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
