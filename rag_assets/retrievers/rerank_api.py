"""``type: rerank_api``: a reranking model behind a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from rag_assets.llm.endpoint import Endpoint
from rag_assets.options import Number
from rag_assets.reranking.candidates import Candidates
from rag_assets.reranking.rerank_api import Asking
from rag_assets.reranking.rerank_endpoint import RerankEndpoint
from rag_assets.retrievers.derived import Reranked, RerankedRetriever
from rag_assets.retrievers.server_scoring import HOW_ASKED, Address, scored_by_server
from rag_assets.retrievers.workspace import Workspace


class RerankApi(RerankedRetriever):
    """Reranking by ``POST <base_url>/rerank``, as Cohere, Jina, vLLM and others offer it.

    ``api_key_env`` names the environment variable with the key; without it none is sent.
    ``dialect: tei`` is for Text Embeddings Inference, whose model is the one that it was started
    with. ``listwise`` is for models whose scores depend on the other documents of a request. A
    query that the server does not score has no results, and says why.
    """

    model_kind: ClassVar[str | None] = "http"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.reranking.rerank_answers",
        "rag_assets.reranking.rerank_api",
        "rag_assets.reranking.rerank_endpoint",
        "rag_assets.retrievers.server_scoring",
        "rag_assets.store.pair_score_cache",
    )

    type: Literal["rerank_api"]
    base_url: Address
    model: str = Field(min_length=1)
    api_key_env: str | None = Field(default=None, min_length=1)
    dialect: Literal["cohere", "tei"] = "cohere"
    listwise: bool = False
    batch_size: int = Field(default=32, ge=1, strict=True)
    concurrency: int = Field(default=4, ge=1, le=64, strict=True)
    timeout: Number = Field(default=60.0, gt=0)
    retries: int = Field(default=4, ge=0, le=20, strict=True)
    backoff: Number = Field(default=1.0, ge=0)

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | HOW_ASKED)

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model, "dialect": self.dialect}
        return {**named, "listwise": self.listwise}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask the server for the scores of every new pair."""
        asking = Asking(
            self.describe(),
            batch_size=self.batch_size,
            listwise=self.listwise,
            concurrency=self.concurrency,
            cache=workspace.cache_of("pair_scores"),
        )
        endpoint = RerankEndpoint(self._endpoint(), self.dialect)
        return scored_by_server(candidates, endpoint, asking, workspace)

    def _endpoint(self) -> Endpoint:
        return Endpoint(
            self.model,
            self.base_url,
            self.api_key_env,
            timeout=self.timeout,
            retries=self.retries,
            backoff=self.backoff,
        )
