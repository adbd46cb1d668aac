"""``type: openai_embedding``: vectors of a server that speaks the OpenAI protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.errors import UsageError
from rag_assets.llm.budget import MILLION
from rag_assets.llm.completions import Estimate
from rag_assets.llm.endpoint import DEFAULT_BASE_URL, Endpoint
from rag_assets.llm.openai_embeddings import OpenAIEmbeddings, embed_cached
from rag_assets.models.unit_vectors import Vectors
from rag_assets.options import Number
from rag_assets.retrieval.base import EmbeddingRetriever
from rag_assets.retrieval.dense import flat_index
from rag_assets.retrieval.dense.exact import ExactSearcher
from rag_assets.retrieval.dense.query_vectors import dense_table
from rag_assets.retrieval.retriever import Searcher
from rag_assets.retrieval.workspace import Usage, Workspace

Kind = Literal["query", "document"]
Count = Annotated[int, Field(ge=1, strict=True)]


class OpenAIEmbedding(EmbeddingRetriever):
    """Embedding retrieval by a server, searched exactly.

    ``similarity: cosine`` brings vectors to length 1; ``dot`` is the inner product as they come,
    ``euclidean`` the negative of their distance.

    The key is read from the environment variable ``api_key_env``, null for a server that needs
    none. ``dimensions`` asks for shorter vectors. The prompts are put before every query or
    document. How often and how fast is asked changes no result, nor does ``price``, that of a
    million tokens, for the cost that ``leaderboard --latency`` shows. ``max_calls`` bounds the
    requests of an index, or of the queries, besides those of ``latency_sample``.
    """

    asks_server: ClassVar[bool] = True
    model_kind: ClassVar[str | None] = "openai"
    search_kind: ClassVar[str | None] = "faiss"
    provider: ClassVar[str | None] = "openai"
    search_packages: ClassVar[tuple[str, ...]] = ("faiss-cpu",)

    type: Literal["openai_embedding"]
    model: str = Field(min_length=1)
    base_url: str = DEFAULT_BASE_URL
    api_key_env: str | None = "OPENAI_API_KEY"
    dimensions: Count | None = None
    query_prompt: str = ""
    document_prompt: str = ""
    similarity: Literal["cosine", "dot", "euclidean"] = "cosine"
    batch_size: Annotated[int, Field(ge=1, le=2048, strict=True)] = 64
    concurrency: Count = 4
    timeout: Annotated[Number, Field(gt=0)] = 60.0
    retries: Annotated[int, Field(ge=0, strict=True)] = 4
    backoff: Annotated[Number, Field(ge=0)] = 1.0
    price: Annotated[Number, Field(ge=0)] | None = None
    max_calls: Annotated[int, Field(ge=0, strict=True)] | None = None

    @model_validator(mode="after")
    def _address(self) -> OpenAIEmbedding:
        try:
            self._endpoint()
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        """Return the model, its server and the prompt; never the key or the name of its variable.

        A server may exchange the weights behind a name: that cannot be seen from here.
        """
        return {
            "model": self.model,
            "server": self._endpoint().place,
            "dimensions": self.dimensions,
            "prompt": self._prompt(kind),
            "normalisation": "l2" if self.similarity == "cosine" else "none",
            "backend": "openai",
        }

    def expected_requests(self, texts: Sequence[str], kind: Kind) -> Estimate:
        """Return requests, tokens (a byte each) and cost, whatever is in the cache."""
        tokens = sum(len((self._prompt(kind) + text).encode()) for text in texts)
        cost = tokens * self.price / MILLION if self.price is not None else None
        return Estimate(0, -(-len(texts) // self.batch_size), cost, tokens)

    def index_options(self) -> Mapping[str, Any]:
        """Return nothing of its own: all that counts is in :meth:`describe`."""
        return {}

    def search_config(self) -> Mapping[str, Any]:
        """Return the options that determine the ranking besides the index, but the default."""
        own = {"similarity": self.similarity} if self.similarity != "cosine" else {}
        return {**super().search_config(), **own}

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write their vectors."""
        vectors = self._vectors(texts, "document", workspace)
        ids = chunks.column("chunk_id").to_pylist()
        if self.similarity == "cosine":
            return flat_index.build(ids, vectors, folder)
        return flat_index.save(ids, vectors, folder)

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        texts = variants.column("text").to_pylist()
        return dense_table(variants, self._vectors(texts, "query", workspace))

    def open(self, folder: Path) -> Searcher[pa.Table]:
        """Open the vectors."""
        return ExactSearcher(flat_index.FlatIndex.load(folder), self.similarity)

    def _vectors(self, texts: Sequence[str], kind: Kind, workspace: Workspace) -> Vectors:
        n_new = 0
        opened: list[OpenAIEmbeddings] = []
        label = "embed queries" if kind == "query" else "embed chunks"
        prompt = self._prompt(kind)
        with workspace.progress(label, len(texts)) as advance:

            def count(done: int, total: int) -> None:
                nonlocal n_new
                n_new = total
                advance(done, total)

            def server() -> OpenAIEmbeddings:
                opened.append(self._server())
                return opened[0]

            started = time.perf_counter()
            vectors = embed_cached(
                [prompt + text for text in texts],
                server,
                {name: v for name, v in self.describe(kind).items() if name != "prompt"},
                normalise=self.similarity == "cosine",
                cache=workspace.cache_of("embeddings"),
                progress=count,
            )
            seconds = time.perf_counter() - started
        tokens = opened[0].tokens if opened else None
        priced = tokens is not None and self.price is not None
        cost = (tokens or 0) * (self.price or 0.0) / MILLION if priced else None
        workspace.measure(Usage("embed", n_new, seconds, tokens=tokens, cost=cost))
        workspace.measure(Usage("embed", len(set(texts)) - n_new, cached=True))
        return vectors

    def _server(self) -> OpenAIEmbeddings:
        return OpenAIEmbeddings(
            self._endpoint(),
            dimensions=self.dimensions,
            batch_size=self.batch_size,
            max_calls=self.max_calls,
        )

    def _endpoint(self) -> Endpoint:
        return Endpoint(
            self.model,
            self.base_url,
            self.api_key_env,
            timeout=self.timeout,
            concurrency=self.concurrency,
            retries=self.retries,
            backoff=self.backoff,
        )

    def _prompt(self, kind: Kind) -> str:
        return self.query_prompt if kind == "query" else self.document_prompt
