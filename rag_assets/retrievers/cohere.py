"""``type: cohere``: a reranking model of Cohere's, asked by Cohere's own client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, Literal

from pydantic import Field

from rag_assets.llm.endpoint import Endpoint
from rag_assets.options import Number
from rag_assets.reranking.candidates import Candidates
from rag_assets.reranking.cohere_client import CohereReranker
from rag_assets.reranking.rerank_api import Asking
from rag_assets.retrievers.derived import Reranked, RerankedRetriever
from rag_assets.retrievers.server_scoring import HOW_ASKED, Address, scored_by_server
from rag_assets.retrievers.workspace import Workspace

DEFAULT_BASE_URL = "https://api.cohere.com"


class Cohere(RerankedRetriever):
    """Reranking by Cohere's client, the package ``cohere``.

    The key is read from the environment variable ``api_key_env``, null for a server that needs
    none. ``max_tokens_per_doc`` is where the server cuts a document. ``price`` is that of a
    thousand search units, for the cost that ``leaderboard --latency`` shows, and changes no result.
    A query that the server does not score has no results, and says why.
    """

    model_kind: ClassVar[str | None] = "http"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.reranking.cohere_client",
        "rag_assets.reranking.rerank_answers",
        "rag_assets.reranking.rerank_api",
        "rag_assets.retrievers.server_scoring",
        "rag_assets.store.pair_score_cache",
    )

    type: Literal["cohere"]
    model: str = Field(min_length=1)
    base_url: Address = DEFAULT_BASE_URL
    api_key_env: str | None = Field(default="CO_API_KEY", min_length=1)
    max_tokens_per_doc: int | None = Field(default=None, ge=1, strict=True)
    batch_size: int = Field(default=100, ge=1, le=1000, strict=True)
    concurrency: int = Field(default=4, ge=1, le=64, strict=True)
    timeout: Number = Field(default=60.0, gt=0)
    retries: int = Field(default=4, ge=0, le=20, strict=True)
    backoff: Number = Field(default=1.0, ge=0)
    price: Number | None = Field(default=None, ge=0)

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | HOW_ASKED | {"price"})

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model}
        return {**named, "protocol": "cohere v2", "max_tokens_per_doc": self.max_tokens_per_doc}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask for the scores of every new pair."""
        asking = Asking(
            self.describe(),
            batch_size=self.batch_size,
            concurrency=self.concurrency,
            cache=workspace.cache_of("pair_scores"),
        )
        reranker = CohereReranker(self._endpoint(), max_tokens_per_doc=self.max_tokens_per_doc)

        def cost() -> float | None:
            searches, price = reranker.searches, self.price
            return None if searches is None or price is None else searches * price / 1_000

        with closing(reranker):
            return scored_by_server(candidates, reranker, asking, workspace, cost)

    def _endpoint(self) -> Endpoint:
        return Endpoint(
            self.model,
            self.base_url,
            self.api_key_env,
            timeout=self.timeout,
            retries=self.retries,
            backoff=self.backoff,
        )
