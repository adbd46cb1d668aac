"""``type: rerank_api``: a reranking model behind a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, Self

from pydantic import model_validator

from rag_assets.retrieval.derived import Reranked
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.rerank_endpoint import RerankEndpoint
from rag_assets.retrieval.reranking.server_scoring import ServerReranker, scored_by_server
from rag_assets.retrieval.workspace import Workspace


class RerankApi(ServerReranker):
    """Reranking by ``POST <base_url>/rerank``, as Cohere, Jina, vLLM and others offer it.

    ``api_key_env`` names the environment variable with the key; without it none is sent.
    ``dialect: tei`` is for Text Embeddings Inference, whose model is the one that it was started
    with. ``listwise`` is for models whose scores depend on the other documents of a request. A
    query that the server does not score has no results, and says why.
    """

    type: Literal["rerank_api"]
    dialect: Literal["cohere", "tei"] = "cohere"
    listwise: bool = False

    @model_validator(mode="after")
    def _one_request_has_all(self) -> Self:
        if self.listwise and "batch_size" in self.model_fields_set:
            raise ValueError(
                "batch_size: only without listwise, whose requests have all candidates"
            )
        return self

    def describe(self) -> Mapping[str, Any]:
        """Return what determines a score besides the texts, as far as it can be known."""
        named = {"base_url": self.base_url, "model": self.model, "dialect": self.dialect}
        return {**named, "listwise": self.listwise}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Ask the server for the scores of every new pair."""
        asking = self.asking(workspace, listwise=self.listwise)
        with closing(RerankEndpoint(self.endpoint(), self.dialect)) as endpoint:
            return scored_by_server(candidates, endpoint, asking, workspace)
