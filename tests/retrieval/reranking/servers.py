"""Both ways of asking a server for scores, and what is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import pytest

from rag_assets.llm.endpoint import Endpoint
from rag_assets.retrieval.reranking.candidates import Scores
from rag_assets.retrieval.reranking.rerank_api import RerankEndpoint
from rag_assets.retrieval.reranking.server_scores import Failed
from tests.llm.server import Reply, Server, json_reply, shared_words

KEY = "sk-very-secret"
QUERY = "wind in the harbour"
DOCUMENTS = ["a dog", "the wind", "wind in the northern harbour"]
PROPER = [shared_words(QUERY, text) for text in DOCUMENTS]


class Reranker(Protocol):
    """What the two have in common."""

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed: ...

    def close(self) -> None: ...


class OpenEndpoint(RerankEndpoint):
    """Has nothing to close."""

    def close(self) -> None:
        pass


class Way(NamedTuple):
    """One of them.

    Attributes:
        base: path of the base address.
        path: path of a request.
        opened: opens one for an address, with its sleep.
    """

    base: str
    path: str
    opened: Callable[[Endpoint, Callable[[float], None]], Reranker]


def _client(endpoint: Endpoint, sleep: Callable[[float], None]) -> Reranker:
    from rag_assets.retrieval.reranking.cohere import CohereReranker

    return CohereReranker(endpoint, max_tokens_per_doc=None, sleep=sleep)


def _endpoint(endpoint: Endpoint, sleep: Callable[[float], None]) -> Reranker:
    return OpenEndpoint(endpoint, "cohere", sleep)


def way(name: str) -> Way:
    """Return the way of this name: ``client`` or ``endpoint``."""
    if name == "endpoint":
        return Way("/v1", "/v1/rerank", _endpoint)
    reason = "needs the package cohere: pip install 'rag-assets[cohere]'"
    pytest.importorskip("cohere", reason=reason)
    return Way("", "/v2/rerank", _client)


def settings(server: Server, base: str = "", **changed: Any) -> Endpoint:
    """Return how a server is asked."""
    plain = Endpoint("tiny", f"{server.root}{base}", None, timeout=5, retries=2, backoff=0.01)
    return replace(plain, **changed)


def results(*scores: object, name: str = "relevance_score", **more: object) -> Reply:
    """Return an answer as the protocol has it."""
    rows = [{"index": i, name: score} for i, score in enumerate(scores)]
    return json_reply({"id": "x", "results": rows, **more})


def check_refused(found: object, server: Server) -> None:
    """Fail if an answer that the protocol does not have is taken, or asked for again."""
    assert isinstance(found, Failed)
    assert not found.transient
    assert found.reason.startswith("the answer ")
    assert len(found.reason) < 300
    assert len(server.received) == 1
