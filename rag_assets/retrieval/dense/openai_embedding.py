"""``type: openai_embedding``: vectors of a server that speaks the OpenAI protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.llm.budget import MILLION
from rag_assets.llm.completions import Estimate
from rag_assets.llm.endpoint import DEFAULT_BASE_URL
from rag_assets.llm.openai_server import OpenAIEmbeddings, embed_cached
from rag_assets.models.encoder import Kind, Progress
from rag_assets.models.vectors import Vectors
from rag_assets.options import Number
from rag_assets.retrieval.base import EmbeddingRetriever
from rag_assets.retrieval.dense.query_vectors import dense_table
from rag_assets.retrieval.dense.vector_index import Similarity, VectorIndex, save_vectors
from rag_assets.retrieval.retriever import Role
from rag_assets.retrieval.workspace import Usage, Workspace, measured
from rag_assets.servers.client import ServedModelOptions, ServerAddress

Count = Annotated[int, Field(ge=1, strict=True)]
Price = Annotated[Number, Field(ge=0)]


class OpenAIEmbedding(ServedModelOptions, EmbeddingRetriever):
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
    model: Annotated[str, Field(min_length=1), Role.MODEL]
    base_url: Annotated[ServerAddress, Role.MODEL] = DEFAULT_BASE_URL
    api_key_env: str | None = "OPENAI_API_KEY"
    dimensions: Annotated[Count | None, Role.MODEL] = None
    query_prompt: Annotated[str, Role.MODEL] = ""
    document_prompt: Annotated[str, Role.MODEL] = ""
    similarity: Annotated[Similarity, Role.SEARCH] = "cosine"
    batch_size: Annotated[int, Field(ge=1, le=2048, strict=True), Role.NOTHING] = 64
    price: Annotated[Price | None, Role.NOTHING] = None

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        """Return the model, its server and the prompt; never the key or the name of its variable.

        A server may exchange the weights behind a name: that cannot be seen from here.
        """
        return {
            "model": self.model,
            "server": self.place,
            "dimensions": self.dimensions,
            "prompt": self._prompt(kind),
            "normalisation": "l2" if self.similarity == "cosine" else "none",
            "backend": "openai",
        }

    def expected_requests(self, texts: Sequence[str], kind: Kind) -> Estimate:
        tokens = sum(len((self._prompt(kind) + text).encode()) for text in texts)
        cost = tokens * self.price / MILLION if self.price is not None else None
        return Estimate(0, -(-len(texts) // self.batch_size), cost, tokens)

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        vectors = self._vectors(texts, "document", workspace)
        return save_vectors(chunks.column("chunk_id").to_pylist(), vectors, folder)

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        texts = variants.column("text").to_pylist()
        return dense_table(variants, self._vectors(texts, "query", workspace))

    def open(self, folder: Path) -> VectorIndex:
        return VectorIndex.load(folder, self.similarity)

    def _vectors(self, texts: Sequence[str], kind: Kind, workspace: Workspace) -> Vectors:
        opened: list[OpenAIEmbeddings] = []
        prompt = self._prompt(kind)

        def server() -> OpenAIEmbeddings:
            opened.append(self._server())
            return opened[0]

        def encode(progress: Progress) -> Vectors:
            return embed_cached(
                [prompt + text for text in texts],
                server,
                {name: v for name, v in self.describe(kind).items() if name != "prompt"},
                normalise=self.similarity == "cosine",
                cache=workspace.cache_of("embeddings"),
                progress=progress,
            )

        def measure(usage: Usage) -> None:
            tokens = opened[0].tokens if opened and not usage.cached else None
            priced = tokens is not None and self.price is not None
            cost = (tokens or 0) * (self.price or 0.0) / MILLION if priced else None
            workspace.measure(replace(usage, tokens=tokens, cost=cost))

        return measured(encode, texts, kind, replace(workspace, measure=measure))

    def _server(self) -> OpenAIEmbeddings:
        return OpenAIEmbeddings(self, dimensions=self.dimensions, batch_size=self.batch_size)

    def _prompt(self, kind: Kind) -> str:
        return self.query_prompt if kind == "query" else self.document_prompt
