from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.endpoint import Endpoint
from rag_assets.reranking.rerank_answers import Failed
from rag_assets.reranking.rerank_endpoint import Dialect, RerankEndpoint
from tests.llm.server import (
    Reply,
    Server,
    broken_json,
    error,
    json_reply,
    page,
    rate_limited,
    serving,
    shared_words,
)

KEY = "sk-very-secret"
QUERY = "wind in the harbour"
DOCUMENTS = ["a dog", "the wind", "wind in the northern harbour"]
PROPER = [shared_words(QUERY, text) for text in DOCUMENTS]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def endpoint(
    server: Server,
    sleeps: list[float] | None = None,
    dialect: Dialect = "cohere",
    **changed: Any,
) -> RerankEndpoint:
    plain = Endpoint("tiny", server.base_url, None, timeout=5, retries=2, backoff=0.01)
    told: list[float] = [] if sleeps is None else sleeps
    return RerankEndpoint(replace(plain, **changed), dialect, told.append)


def results(*scores: object, name: str = "relevance_score") -> Reply:
    return json_reply({"results": [{"index": i, name: s} for i, s in enumerate(scores)]})


def test_scores_stand_in_the_order_of_the_documents(server: Server) -> None:
    found = endpoint(server).score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert found.tolist() == PROPER
    (request,) = server.received
    assert request.path == "/v1/rerank"
    assert request.body == {"model": "tiny", "query": QUERY, "documents": DOCUMENTS, "top_n": 3}
    assert "authorization" not in request.headers


def test_the_dialect_of_text_embeddings_inference(server: Server) -> None:
    rows = [{"index": 2, "score": 0.9}, {"index": 0, "score": 0.1}, {"index": 1, "score": 0.2}]
    server.on(QUERY, json_reply(rows))
    found = endpoint(server, dialect="tei").score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [0.1, 0.2, 0.9]
    assert server.received[0].body == {"query": QUERY, "texts": DOCUMENTS, "truncate": True}


def test_the_key_is_sent_and_never_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", KEY)
    asked = endpoint(server, api_key_variable="RERANK_KEY")
    server.on(QUERY, error(400, f"bad request with {KEY}"), error(401, f"who is {KEY}?"))
    found = asked.score(QUERY, DOCUMENTS)
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert found == Failed("HTTP 400: bad request with [key]")
    with pytest.raises(ModelUnavailable) as raised:
        asked.score(QUERY, DOCUMENTS)
    assert KEY not in str(raised.value)


def test_a_key_that_is_not_set(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RERANK_KEY", raising=False)
    with pytest.raises(UsageError, match="environment variable RERANK_KEY is not set"):
        endpoint(server, api_key_variable="RERANK_KEY")


@pytest.mark.parametrize("key", ["sk-\nsecret", "sk-sécret"])
def test_a_key_that_no_header_can_hold(
    server: Server, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("RERANK_KEY", key)
    with pytest.raises(UsageError, match="RERANK_KEY holds no API key") as raised:
        endpoint(server, api_key_variable="RERANK_KEY")
    assert key not in str(raised.value)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_no_request_can_pass_is_one_error(server: Server, status: int) -> None:
    server.on(QUERY, error(status, "no"))
    with pytest.raises(ModelUnavailable, match=f"HTTP {status}: no.; check base_url") as raised:
        endpoint(server).score(QUERY, DOCUMENTS)
    assert f"{server.base_url}/rerank, model 'tiny'" in str(raised.value)
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(server: Server, status: int) -> None:
    server.on(QUERY, error(status), error(status), results(1, 2, 3))
    sleeps: list[float] = []
    found = endpoint(server, sleeps).score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [1.0, 2.0, 3.0]
    assert sleeps == [0.01, 0.02]


def test_retry_after_is_honoured(server: Server) -> None:
    server.on(QUERY, rate_limited("7"), results(1, 2, 3))
    sleeps: list[float] = []
    assert isinstance(endpoint(server, sleeps).score(QUERY, DOCUMENTS), np.ndarray)
    assert sleeps == [7.0]


def test_a_wait_that_is_too_long_ends_the_attempts(server: Server) -> None:
    server.on(QUERY, rate_limited("3600"))
    found = endpoint(server).score(QUERY, DOCUMENTS)
    assert found == Failed("told to wait 3600 s, which is too long", transient=True)
    assert len(server.received) == 1


def test_retries_end(server: Server) -> None:
    server.on(QUERY, error(503, "busy"))
    assert endpoint(server).score(QUERY, DOCUMENTS) == Failed("HTTP 503: busy", transient=True)
    assert len(server.received) == 3


def test_a_time_out_is_tried_again(server: Server) -> None:
    server.on(QUERY, replace(results(1, 2, 3), hang=30), results(1, 2, 3))
    found = endpoint(server, timeout=0.3).score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    server.on("slow", replace(results(1), hang=30))
    found = endpoint(server, timeout=0.2, retries=0).score("slow", ["a"])
    assert found == Failed("no answer within 0.2 s", transient=True)


def test_an_answer_that_is_cut_off_is_tried_again(server: Server) -> None:
    server.on(QUERY, replace(results(1, 2, 3), cut=20), results(1, 2, 3))
    assert isinstance(endpoint(server).score(QUERY, DOCUMENTS), np.ndarray)


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    nobody = Endpoint("tiny", f"http://127.0.0.1:{port}", None, retries=0)
    found = RerankEndpoint(nobody).score(QUERY, DOCUMENTS)
    assert isinstance(found, Failed)
    assert found.transient
    assert found.reason.startswith("the connection failed (")


def test_the_key_does_not_follow_a_redirect(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERANK_KEY", KEY)
    with serving() as other:
        server.on(QUERY, Reply(302, b"", {"Location": f"{other.base_url}/rerank"}))
        found = endpoint(server, api_key_variable="RERANK_KEY").score(QUERY, DOCUMENTS)
        assert isinstance(found, Failed)
        assert found.reason.startswith("HTTP 302")
        assert other.received == []


@pytest.mark.parametrize(
    "reply",
    [
        broken_json(),
        page(),
        json_reply({}),
        json_reply({"results": None}),
        json_reply({"results": [1, 2, 3]}),
        json_reply("results"),
        json_reply([]),
        results(1, 2),
        results(1, 2, 3, 4),
        results(1, None, 3),
        results(1, "2", 3),
        results(1, True, 3),
        results(1, 2, 3, name="value"),
        Reply(200, b'{"results": [{"index": 0, "score": NaN}]}'),
        json_reply({"results": [{"index": 0, "score": i} for i in range(3)]}),
        json_reply({"results": [{"index": i - 1, "score": i} for i in range(3)]}),
        Reply(200, b"[" * 200_000),
    ],
)
def test_what_the_protocol_does_not_say_fails_this_query_only(server: Server, reply: Reply) -> None:
    server.on(QUERY, reply)
    found = endpoint(server).score(QUERY, DOCUMENTS)
    assert isinstance(found, Failed)
    assert not found.transient
    assert found.reason.startswith("the answer ")
    assert len(server.received) == 1


def test_what_was_scored_and_what_the_server_counted(server: Server) -> None:
    asked = endpoint(server)
    asked.score(QUERY, DOCUMENTS)
    assert (asked.n_asked, asked.tokens) == (3, None)
    rows = [{"index": 0, "relevance_score": 0.5}]
    server.on(
        QUERY,
        json_reply({"results": rows, "usage": {"total_tokens": 7}}),
        json_reply({"results": rows, "usage": {"total_tokens": "many"}}),
        json_reply({"results": [], "usage": {"total_tokens": 7}}),
    )
    for _ in range(3):
        asked.score(QUERY, DOCUMENTS[:1])
    assert (asked.n_asked, asked.tokens) == (5, 7), "an answer that is refused counts for nothing"
