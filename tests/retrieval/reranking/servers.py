"""How a reranking server is asked for scores, and what is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rag_assets.llm.endpoint import Endpoint
from rag_assets.servers.failures import Failed
from tests.llm.server import Reply, Server, json_reply, shared_words

KEY = "sk-very-secret"
QUERY = "wind in the harbour"
DOCUMENTS = ["a dog", "the wind", "wind in the northern harbour"]
PROPER = [shared_words(QUERY, text) for text in DOCUMENTS]


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
    assert not found.retryable
    assert found.reason.startswith("the answer ")
    assert len(found.reason) < 300
    assert len(server.received) == 1
