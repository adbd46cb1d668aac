"""The dialect of Text Embeddings Inference, and what is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rag_assets.errors import UsageError
from rag_assets.retrieval.reranking.server import Dialect, RerankEndpoint
from tests.llm.server import Server, json_reply
from tests.retrieval.reranking.servers import DOCUMENTS, QUERY, settings


def endpoint(server: Server, dialect: Dialect = "cohere", **changed: Any) -> RerankEndpoint:
    return RerankEndpoint(settings(server, "/v1", **changed), dialect)


def test_the_dialect_of_text_embeddings_inference(server: Server) -> None:
    rows = [{"index": 2, "score": 0.9}, {"index": 0, "score": 0.1}, {"index": 1, "score": 0.2}]
    server.on(QUERY, json_reply(rows))
    found = endpoint(server, dialect="tei").score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [0.1, 0.2, 0.9]
    assert server.received[0].body == {"query": QUERY, "texts": DOCUMENTS, "truncate": True}


@pytest.mark.parametrize("key", ["sk-\nsecret", "sk-sécret"])
def test_a_key_that_no_header_can_hold(
    server: Server, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("RERANK_KEY", key)
    with pytest.raises(UsageError, match="RERANK_KEY holds no API key") as raised:
        endpoint(server, api_key_variable="RERANK_KEY")
    assert key not in str(raised.value)


def test_what_was_scored_and_what_the_server_counted(server: Server) -> None:
    asked = endpoint(server)
    asked.score(QUERY, DOCUMENTS)
    assert (asked.n_scored, asked.tokens) == (3, None)
    rows = [{"index": 0, "relevance_score": 0.5}]
    server.on(
        QUERY,
        json_reply({"results": rows, "usage": {"total_tokens": 7}}),
        json_reply({"results": rows, "usage": {"total_tokens": "many"}}),
        json_reply({"results": [], "usage": {"total_tokens": 7}}),
    )
    for _ in range(3):
        asked.score(QUERY, DOCUMENTS[:1])
    assert (asked.n_scored, asked.tokens) == (5, 7), "an answer that is refused counts for nothing"
