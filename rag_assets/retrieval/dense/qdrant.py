"""``type: qdrant``: Qdrant's own engine, in this process or on a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.llm.endpoint import key_of
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.options import Number
from rag_assets.ordering import Hits
from rag_assets.package_versions import version
from rag_assets.retrieval.base import EmbeddingRetriever
from rag_assets.retrieval.dense import flat_index, qdrant_search
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.dense.engine_search import EngineIndex, EngineSearcher
from rag_assets.retrieval.dense.query_vectors import dense_matrix
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.client import Address
from rag_assets.servers.transport import Server

FILE = "collection.json"
PACKAGE = "qdrant-client"

OF_SERVER = ("id_field", "api_key_env", "vector", "revision", "ef_search", "exact", "timeout")


class Qdrant(EmbeddingRetriever):
    """Embedding retrieval by Qdrant, the package ``qdrant-client``.

    Without ``url`` the chunks are embedded as ``type: embedding`` does, and searched by the engine
    that the client has in itself. With ``url`` the ``collection`` of a server is searched as it is:
    the payload of a point names its chunk by ``id_field`` (a document that is not cut is a chunk of
    its own id), and ``model`` embeds the queries only. What a server holds cannot be seen from
    here: give another ``revision`` when it has changed. Of its graph ``ef_search`` points are asked
    for, or as many as the graph was made with, whatever the depth: no query has more results.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    search_kind: ClassVar[str | None] = "qdrant"

    type: Literal["qdrant"]
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None
    similarity: Literal["cosine", "dot", "euclidean"] = "cosine"
    precision: Literal["auto", "float32", "bfloat16"] = "float32"
    url: Address | None = None
    collection: str | None = Field(default=None, min_length=1)
    id_field: str = Field(default="chunk_id", min_length=1)
    api_key_env: str | None = Field(default=None, min_length=1)
    vector: str | None = Field(default=None, min_length=1)
    revision: str | None = None
    ef_search: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = None
    exact: Annotated[bool, Field(strict=True)] = False
    timeout: Annotated[Number, Field(gt=0)] = 60.0

    @model_validator(mode="after")
    def _belongs_to_a_server(self) -> Self:
        if (self.url is None) != (self.collection is None):
            raise ValueError("url and collection belong together")
        given = [
            name for name in OF_SERVER if name in self.model_fields_set and getattr(self, name)
        ]
        if self.url is None and given:
            raise ValueError(f"{given[0]} belongs to url")
        if self.url is not None and self.document_prompt is not None:
            raise ValueError("document_prompt: the chunks of a server are embedded already")
        if self.exact and self.ef_search is not None:
            raise ValueError("ef_search belongs to a search by the graph, not to exact: true")
        return self

    def most_results(self) -> tuple[str, int] | None:
        """Return ``ef_search``, where it is given."""
        return None if self.ef_search is None else ("ef_search", self.ef_search)

    @property
    def indexes_texts(self) -> bool:
        """Not where a server has indexed the chunks."""
        return self.url is None

    def describe(self, kind: Literal["query", "document"]) -> Mapping[str, Any]:
        """Return what embeds; for the chunks of a server, only how they are compared."""
        if kind == "document" and self.url is not None:
            return {"similarity": self.similarity}
        return self._bi_encoder().describe(kind)

    def tokenizer_files(self) -> ModelFiles:
        """Return the model's files."""
        return self._bi_encoder().tokenizer_files()

    def index_options(self) -> Mapping[str, Any]:
        """Return where a server has the chunks; never the key or the name of its variable."""
        if self.url is None:
            return {}
        names = ("url", "collection", "id_field", "vector", "revision")
        return {name: getattr(self, name) for name in names}

    def search_config(self) -> Mapping[str, Any]:
        """Return the options that determine the ranking besides the index."""
        names = ("similarity", "ef_search", "exact")
        return {**super().search_config(), **{name: getattr(self, name) for name in names}}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        return self._bi_encoder().versions()

    def search_versions(self) -> Mapping[str, str]:
        """Return the version of the engine.

        Raises:
            UsageError: it is not installed.
        """
        try:
            return {PACKAGE: version(PACKAGE)}
        except PackageNotFoundError as error:
            raise UsageError(qdrant_search.MISSING) from error

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        return self._bi_encoder().encode(variants, workspace)

    def encode_now(self, texts: Sequence[str]) -> bool:
        """Embed queries past the cache, when the model is in memory."""
        return self._bi_encoder().encode_now(texts)

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write their vectors; of a server, note what its collection is.

        The files are vectors and ids, since the engine's own database differs from run to run.
        """
        if self.url is None:
            return self._bi_encoder().build(chunks, texts, folder, workspace)
        server = self._server()
        with closing(qdrant_search.connected(server)) as client:
            name = str(self.collection)
            found = qdrant_search.described(client, name, self.vector, server.secrets)
        wanted = qdrant_search.DISTANCES[self.similarity]
        if found["distance"] != wanted:
            problem = f"compares by {found['distance']}; similarity: {self.similarity} is {wanted}"
            raise DataError(f"collection '{self.collection}' of Qdrant {problem}")
        ids = chunks.column("chunk_id").to_pylist()
        text = json.dumps({**found, "chunk_ids": ids}, ensure_ascii=False)
        (folder / FILE).write_text(text, encoding="utf-8")
        return {"chunks": len(ids), **found}

    def open(self, folder: Path) -> EngineSearcher:
        """Load the vectors into the engine, or connect to the server."""
        if self.url is None:
            index = flat_index.FlatIndex.load(folder)
            return EngineSearcher(qdrant_search.embedded(index, self.similarity))
        try:
            found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"{folder / FILE} cannot be read: {error}") from error
        server = self._server()
        collection = qdrant_search.Collection(
            qdrant_search.connected(server),
            str(self.collection),
            self.similarity,
            found["points"],
            vector=self.vector,
            id_field=self.id_field,
            ef_search=None if self.exact else self.ef_search or found["ef_construct"],
            exact=self.exact,
            secrets=server.secrets,
        )
        chunk_ids = tuple(found["chunk_ids"])
        engine = qdrant_search.QdrantEngine(collection, chunk_ids)
        index_of_server = EngineIndex(chunk_ids, engine, self.similarity)
        return ServerSearcher(index_of_server, collection.name, found["dimension"])

    def _bi_encoder(self) -> BiEncoder:
        """Return the retriever that embeds in the same way."""
        return BiEncoder(
            type="embedding",
            model=self.model,
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
            similarity=self.similarity,
            precision=self.precision,
        )

    def _server(self) -> Server:
        key = key_of(self.api_key_env) if self.api_key_env is not None else None
        if key == "":
            raise UsageError(f"environment variable {self.api_key_env} is not set")
        return Server(str(self.url), key, "api-key", timeout=self.timeout)


@dataclass(frozen=True)
class ServerSearcher(EngineSearcher):
    """A collection of a server, by its name and dimension."""

    collection: str
    dimension: int

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector.

        Raises:
            DataError: the vectors of the queries have another dimension.
        """
        found = dense_matrix(queries).shape[1]
        if found != self.dimension and queries.num_rows:
            problem = f"has dimension {self.dimension}; the model gives {found}"
            raise DataError(f"collection '{self.collection}' of Qdrant {problem}")
        return super().search(queries, depth, progress)
