"""``type: cohere``: a reranking model of Cohere's, asked by Cohere's own client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Literal

from pydantic import Field

from rag_assets.options import Number
from rag_assets.retrieval.derived import Reranked
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.cohere_client import CohereReranker
from rag_assets.retrieval.reranking.server_scoring import Address, ServerReranker, scored_by_server
from rag_assets.retrieval.workspace import Workspace

DEFAULT_BASE_URL = "https://api.cohere.com"


class Cohere(ServerReranker):
    """Reranking by Cohere's client, the package ``cohere``.

    The key is read from the environment variable ``api_key_env``, null for a server that needs
    none. ``max_tokens_per_doc`` is where the server cuts a document. ``price`` is that of a
    thousand search units, for the cost that ``leaderboard --latency`` shows, and changes no result.
    A query that the server does not score has no results, and says why.
    """

    type: Literal["cohere"]
    base_url: Address = DEFAULT_BASE_URL
    api_key_env: str | None = Field(default="CO_API_KEY", min_length=1)
    max_tokens_per_doc: int | None = Field(default=None, ge=1, strict=True)
    batch_size: int = Field(default=100, ge=1, le=1000, strict=True)
    price: Number | None = Field(default=None, ge=0)

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results."""
        return super().described(exclude=exclude | {"price"})

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model}
        return {**named, "protocol": "cohere v2", "max_tokens_per_doc": self.max_tokens_per_doc}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask for the scores of every new pair."""
        reranker = CohereReranker(self.endpoint(), max_tokens_per_doc=self.max_tokens_per_doc)

        def cost() -> float | None:
            searches, price = reranker.searches, self.price
            return None if searches is None or price is None else searches * price / 1_000

        with closing(reranker):
            return scored_by_server(candidates, reranker, self.asking(workspace), workspace, cost)
