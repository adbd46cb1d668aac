"""``type: qdrant``: search of a collection on a server of Qdrant.

An engine gives so many hits and cuts ties as it likes, so it is asked for more than are wanted,
until the last of them scores lower than the last that is wanted: then order and cut are ours. The
graph of a server looks at a fixed number of candidates; it is asked for these, whatever the depth,
so that a shorter list is the beginning of a longer one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.errors import DataError, NotServed, UsageError
from rag_assets.models.cache_fill import Vectors
from rag_assets.models.encoder import Kind
from rag_assets.options import Number
from rag_assets.ordering import Hits, top_k
from rag_assets.package_versions import version
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder
from rag_assets.retrieval.base import Report, Role, Searcher
from rag_assets.retrieval.dense.embedding import DenseRetriever
from rag_assets.retrieval.dense.vector_index import MARGIN, Similarity, dense_matrix
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.client import Address
from rag_assets.servers.failures import ServerFailure, answered
from rag_assets.servers.secrets import Secrets, key_of
from rag_assets.servers.transport import Server, Transport

Result = TypeVar("Result")

PACKAGE = "qdrant-client"
MISSING = "type qdrant needs the package qdrant-client: pip install 'rag-assets[qdrant]'"

DISTANCES: Mapping[Similarity, str] = {"cosine": "Cosine", "dot": "Dot", "euclidean": "Euclid"}
"""What Qdrant calls them."""

QUERIES_AT_ONCE = 64

EfSearch = Annotated[int, Field(ge=1, le=100_000, strict=True)]


class Qdrant(DenseRetriever):
    """Embedding retrieval by Qdrant, the package ``qdrant-client``.

    The ``collection`` of the server at ``url`` is searched as it is: the payload of a point names
    its chunk by ``id_field`` (a document that is not cut is a chunk of its own id), and ``model``
    embeds the queries only. What a server holds cannot be seen from here: give another ``revision``
    when it has changed. Of its graph ``ef_search`` points are asked for, or as many as the graph
    was made with, whatever the depth: no query has more results.
    """

    search_kind: ClassVar[str | None] = "qdrant"

    type: Literal["qdrant"]
    url: Address
    collection: str = Field(min_length=1)
    id_field: str = Field(default="chunk_id", min_length=1)
    api_key_env: Annotated[str | None, Field(min_length=1), Role.NOTHING] = None
    vector: str | None = Field(default=None, min_length=1)
    revision: str | None = None
    ef_search: Annotated[EfSearch | None, Role.SEARCH] = None
    exact: Annotated[bool, Field(strict=True), Role.SEARCH] = False
    timeout: Annotated[Number, Field(gt=0), Role.NOTHING] = 60.0

    @model_validator(mode="after")
    def _belongs_to_a_server(self) -> Self:
        if self.document_prompt is not None:
            raise ValueError("document_prompt: the chunks on the server are embedded already")
        if self.exact and self.ef_search is not None:
            raise ValueError("ef_search is only for approximate search, not for exact: true")
        return self

    def most_results(self) -> tuple[str, int] | None:
        return None if self.ef_search is None else ("ef_search", self.ef_search)

    @property
    def indexes_texts(self) -> bool:
        return False

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        if kind == "document":
            return {"similarity": self.similarity}
        return super().describe(kind)

    def search_versions(self) -> Mapping[str, str]:
        """Return the version of the engine."""
        try:
            return {PACKAGE: version(PACKAGE)}
        except PackageNotFoundError as error:
            raise UsageError(MISSING) from error

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Note what the collection is, and the ids of the chunks."""
        server = self._server()
        with closing(connected(server)) as client:
            facts = described(client, self.collection, self.vector, server.secrets)
        wanted = DISTANCES[self.similarity]
        if facts["distance"] != wanted:
            problem = f"compares by {facts['distance']}; similarity: {self.similarity} is {wanted}"
            raise DataError(f"collection '{self.collection}' of Qdrant {problem}")
        ids = chunks.column("chunk_id").to_pylist()
        ArrayFolder(folder).save(collection=facts, **{CHUNK_IDS: ids})
        return {"chunks": len(ids), **facts}

    def open(self, folder: Path) -> PointIndex:
        files, server = ArrayFolder(folder), self._server()
        facts = files.mapping("collection", ["points", "dimension", "ef_construct"])
        ids = tuple(files.texts(CHUNK_IDS))
        return PointIndex(ids, connected(server), self, facts, server.secrets)

    def _server(self) -> Server:
        key = key_of(self.api_key_env) if self.api_key_env is not None else None
        if key == "":
            raise UsageError(f"environment variable {self.api_key_env} is not set")
        return Server(self.url, key, "api-key", timeout=self.timeout)


@dataclass(frozen=True)
class PointIndex(Searcher[pa.Table]):
    """Chunks, and the points of a collection that they are found by.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        client: a ``QdrantClient``.
        options: what is searched, and how; the score of a Euclidean distance is its negative.
        facts: of the collection, as :func:`described` gives them.
        secrets: what the server must not repeat.
    """

    chunk_ids: tuple[str, ...]
    client: Any
    options: Qdrant
    facts: Mapping[str, Any]
    secrets: Secrets = field(default_factory=lambda: Secrets(()))

    @property
    def candidates(self) -> int | None:
        """How many the graph of a server gives (ef), whatever the depth; None: exact."""
        options = self.options
        return None if options.exact else options.ef_search or self.facts["ef_construct"]

    def search(self, queries: pa.Table, depth: int, progress: Report | None) -> list[Hits]:
        """Return for each query the best ``depth`` chunks that the engine finds.

        Order: score descending, then id descending by UTF-8 bytes. Where a chunk is found by
        several points, the best counts.
        """
        vectors = dense_matrix(queries)
        dimension = self.facts["dimension"]
        if dimension != vectors.shape[1] and queries.num_rows:
            problem = f"has dimension {dimension}; the model gives {vectors.shape[1]}"
            raise DataError(f"collection '{self.options.collection}' of Qdrant {problem}")
        hits: list[Hits] = []
        for start in range(0, len(vectors), QUERIES_AT_ONCE):
            hits += self._search_block(vectors[start : start + QUERIES_AT_ONCE], depth)
            if progress is not None:
                progress(len(hits))
        return hits

    def _search_block(self, queries: Vectors, k: int) -> list[Hits]:
        if not self.facts["points"]:
            return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in queries]
        limit = min(self.candidates or k + MARGIN, self.facts["points"])
        hits = []
        for query, points in zip(queries, self._points(queries, limit), strict=True):
            depth, ranked = limit, self._chunks(points)
            while self.candidates is None and not self._is_complete(ranked, len(points), k, depth):
                depth = min(4 * depth, self.facts["points"])
                (points,) = self._points(query[None], depth)
                ranked = self._chunks(points)
            best = top_k(ranked.scores, self.ids_rank[ranked.positions], k)
            hits.append(Hits(ranked.positions[best], ranked.scores[best]))
        return hits

    def _is_complete(self, found: Hits, n_found: int, k: int, asked: int) -> bool:
        """Return whether nothing that the engine left out can be among the best k."""
        if n_found < asked or asked >= self.facts["points"]:
            return True
        scores = np.sort(found.scores)[::-1]
        return len(scores) > k and bool(scores[-1] < scores[k - 1])

    def _chunks(self, points: Sequence[Any]) -> Hits:
        """Return each chunk of some points once, with its best score, by position."""
        sign = -1.0 if self.options.similarity == "euclidean" else 1.0
        positions = np.array([self._position_of(point) for point in points], np.int64)
        scores = sign * np.array([point.score for point in points], np.float64)
        order = np.argsort(-scores, kind="stable")
        positions, first = np.unique(positions[order], return_index=True)
        return Hits(positions, scores[order][first])

    def _points(self, queries: Vectors, limit: int) -> list[list[Any]]:
        """Return the points that the engine finds for each query, best first."""
        from qdrant_client import models

        collection = self.options.collection
        params = models.SearchParams(hnsw_ef=self.candidates, exact=self.candidates is None)
        requests = [
            models.QueryRequest(
                query=query.tolist(),
                limit=limit,
                using=self.options.vector,
                with_payload=[self.options.id_field],
                params=params,
            )
            for query in queries
        ]

        def ask() -> list[list[Any]]:
            replies = [part.points for part in self.client.query_batch_points(collection, requests)]
            if len(replies) != len(queries):
                raise ValueError(f"{len(replies)} lists of points for {len(queries)} queries")
            if not all(math.isfinite(point.score) for points in replies for point in points):
                raise ValueError("a score is not a finite number")
            return replies

        return answer_of(ask, collection, self.secrets)

    def _position_of(self, point: Any) -> int:  # noqa: ANN401 (their model)
        id_field = self.options.id_field
        named = (point.payload or {}).get(id_field)
        position = self._positions.get(named) if isinstance(named, str) else None
        if position is None:
            place = f"point {point.id} of the collection '{self.options.collection}' of Qdrant"
            problem = f"has {id_field} = {named!r}, which is not the id of a chunk"
            raise DataError(f"{place} {problem}")
        return position

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {name: position for position, name in enumerate(self.chunk_ids)}


def connected(server: Server) -> Any:  # noqa: ANN401 (their client)
    """Return a client of a server, which gets to know no key."""
    try:
        import httpx
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise UsageError(MISSING) from error
    return QdrantClient(
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
    """Return ``points``, ``dimension``, ``distance`` and ``ef_construct`` of a collection."""
    collection = answer_of(lambda: client.get_collection(name), name, secrets)
    vectors = collection.config.params.vectors
    params = vectors.get(vector or "") if isinstance(vectors, dict) else vectors
    if params is None or (vector and not isinstance(vectors, dict)):
        names = ", ".join(sorted(vectors)) if isinstance(vectors, dict) else "one without a name"
        raise DataError(f"collection '{name}' of Qdrant has no vector '{vector}'; it has {names}")
    return {
        "points": int(collection.points_count or 0),
        "dimension": int(params.size),
        "distance": str(params.distance.value),
        "ef_construct": int(collection.config.hnsw_config.ef_construct),
    }


def answer_of(ask: Callable[[], Result], collection: str, secrets: Secrets) -> Result:
    """Return what a server answers."""
    try:
        return answered(ask, secrets)
    except ServerFailure as error:
        failure = error
    raise NotServed(f"Qdrant, collection '{collection}': {failure}")
