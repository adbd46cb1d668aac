from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.endpoint import Endpoint
from rag_assets.reranking.rerank_answers import Failed
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

pytest.importorskip("cohere", reason="needs the package cohere: pip install 'rag-assets[cohere]'")

from rag_assets.reranking.cohere_client import CohereReranker

KEY = "co-very-secret"
QUERY = "wind in the harbour"
DOCUMENTS = ["a dog", "the wind", "wind in the northern harbour"]
PROPER = [shared_words(QUERY, text) for text in DOCUMENTS]

Opened = Callable[..., CohereReranker]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def sleeps() -> list[float]:
    return []


@pytest.fixture
def reranker(server: Server, sleeps: list[float]) -> Iterator[Opened]:
    """Opens clients for the server, which are closed in the end."""
    made: list[CohereReranker] = []

    def opened(max_tokens_per_doc: int | None = None, **changed: Any) -> CohereReranker:
        plain = Endpoint("tiny", server.root, None, timeout=5, retries=2, backoff=0.01)
        made.append(
            CohereReranker(
                replace(plain, **changed),
                max_tokens_per_doc=max_tokens_per_doc,
                sleep=sleeps.append,
            )
        )
        return made[-1]

    yield opened
    for one in made:
        one.close()


def results(*scores: object, **more: object) -> Reply:
    rows = [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]
    return json_reply({"id": "x", "results": rows, **more})


def test_scores_stand_in_the_order_of_the_documents(server: Server, reranker: Opened) -> None:
    found = reranker().score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert found.tolist() == PROPER
    (request,) = server.received
    assert request.path == "/v2/rerank"
    assert request.body == {"model": "tiny", "query": QUERY, "documents": DOCUMENTS, "top_n": 3}
    assert "authorization" not in request.headers


def test_where_the_server_cuts_a_document(server: Server, reranker: Opened) -> None:
    reranker(max_tokens_per_doc=512).score(QUERY, DOCUMENTS)
    assert server.received[0].body["max_tokens_per_doc"] == 512


def test_the_key_is_sent_and_never_told(
    server: Server, reranker: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERANK_KEY", KEY)
    asked = reranker(api_key_variable="RERANK_KEY")
    server.on(QUERY, error(400, f"bad request with {KEY}"), error(401, f"who is {KEY}?"))
    found = asked.score(QUERY, DOCUMENTS)
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert found == Failed("HTTP 400: bad request with [key]")
    with pytest.raises(ModelUnavailable) as raised:
        asked.score(QUERY, DOCUMENTS)
    assert KEY not in str(raised.value)


def test_another_key_of_the_environment_is_not_sent(
    server: Server, reranker: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client by itself takes CO_API_KEY."""
    monkeypatch.setenv("CO_API_KEY", KEY)
    reranker().score(QUERY, DOCUMENTS)
    assert "authorization" not in server.received[0].headers


def test_a_key_that_is_not_set(reranker: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RERANK_KEY", raising=False)
    with pytest.raises(UsageError, match="environment variable RERANK_KEY is not set"):
        reranker(api_key_variable="RERANK_KEY")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_no_request_can_pass_is_one_error(
    server: Server, reranker: Opened, status: int
) -> None:
    server.on(QUERY, error(status, "no"))
    with pytest.raises(ModelUnavailable, match=f"HTTP {status}: no.; check base_url") as raised:
        reranker().score(QUERY, DOCUMENTS)
    assert f"{server.root}/v2/rerank, model 'tiny'" in str(raised.value)
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(
    server: Server, reranker: Opened, sleeps: list[float], status: int
) -> None:
    server.on(QUERY, error(status), error(status), results(1, 2, 3))
    found = reranker().score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [1.0, 2.0, 3.0]
    assert sleeps == [0.01, 0.02]
    assert len(server.received) == 3, "the client tries nothing again by itself"


def test_retry_after_is_honoured(server: Server, reranker: Opened, sleeps: list[float]) -> None:
    server.on(QUERY, rate_limited("7"), results(1, 2, 3))
    assert isinstance(reranker().score(QUERY, DOCUMENTS), np.ndarray)
    assert sleeps == [7.0]


def test_a_wait_that_is_too_long_ends_the_attempts(server: Server, reranker: Opened) -> None:
    server.on(QUERY, rate_limited("3600"))
    found = reranker().score(QUERY, DOCUMENTS)
    assert found == Failed("told to wait 3600 s, which is too long", transient=True)
    assert len(server.received) == 1


def test_retries_end(server: Server, reranker: Opened) -> None:
    server.on(QUERY, error(503, "busy"))
    assert reranker().score(QUERY, DOCUMENTS) == Failed("HTTP 503: busy", transient=True)
    assert len(server.received) == 3


def test_a_time_out_is_tried_again(server: Server, reranker: Opened) -> None:
    server.on(QUERY, replace(results(1, 2, 3), hang=30), results(1, 2, 3))
    assert isinstance(reranker(timeout=0.3).score(QUERY, DOCUMENTS), np.ndarray)
    server.on("slow", replace(results(1), hang=30))
    found = reranker(timeout=0.2, retries=0).score("slow", ["a"])
    assert found == Failed("no answer within 0.2 s", transient=True)


def test_an_answer_that_is_cut_off_is_tried_again(server: Server, reranker: Opened) -> None:
    server.on(QUERY, replace(results(1, 2, 3), cut=20), results(1, 2, 3))
    assert isinstance(reranker().score(QUERY, DOCUMENTS), np.ndarray)


def test_a_server_that_is_not_there(reranker: Opened) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    found = reranker(base_url=f"http://127.0.0.1:{port}", retries=0).score(QUERY, DOCUMENTS)
    assert isinstance(found, Failed)
    assert found.transient
    assert found.reason.startswith("the connection failed (")


def test_the_key_does_not_follow_a_redirect(
    server: Server, reranker: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERANK_KEY", KEY)
    with serving() as other:
        server.on(QUERY, Reply(302, b"", {"Location": f"{other.root}/v2/rerank"}))
        found = reranker(api_key_variable="RERANK_KEY").score(QUERY, DOCUMENTS)
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
        json_reply({"results": "123"}),
        json_reply("results"),
        json_reply([]),
        json_reply(None),
        results(1, 2),
        results(1, 2, 3, 4),
        results(1, None, 3),
        results(1, "two", 3),
        Reply(200, b'{"results": [{"index": 0, "relevance_score": NaN}]}'),
        json_reply({"results": [{"index": 0, "relevance_score": i} for i in range(3)]}),
        json_reply({"results": [{"index": i - 1, "relevance_score": i} for i in range(3)]}),
        json_reply({"results": [{"relevance_score": i} for i in range(3)]}),
        Reply(200, b"[" * 200_000),
    ],
)
def test_what_the_protocol_does_not_say_fails_this_query_only(
    server: Server, reranker: Opened, reply: Reply
) -> None:
    server.on(QUERY, reply)
    found = reranker().score(QUERY, DOCUMENTS)
    assert isinstance(found, Failed)
    assert not found.transient
    assert found.reason.startswith("the answer ")
    assert len(found.reason) < 300
    assert len(server.received) == 1


def test_what_was_scored_and_what_was_charged(server: Server, reranker: Opened) -> None:
    asked = reranker()
    asked.score(QUERY, DOCUMENTS)
    assert (asked.n_asked, asked.searches, asked.tokens) == (3, None, None)
    server.on(
        QUERY,
        results(0.5, meta={"billed_units": {"search_units": 1, "input_tokens": 40}}),
        results(0.5, meta={"billed_units": {"search_units": 2}}),
        results(0.5, meta={"billed_units": {"search_units": "many"}}),
        results(0.5, meta={"billed_units": None}),
        results(meta={"billed_units": {"search_units": 1}}),
    )
    for _ in range(5):
        asked.score(QUERY, DOCUMENTS[:1])
    assert (asked.n_asked, asked.searches, asked.tokens) == (7, 3.0, 40)
