"""The protocol of Cohere and of those who speak it, with a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.retrieval.reranking.server import RerankEndpoint
from rag_assets.servers.failures import Failed
from tests.llm.server import (
    Reply,
    Server,
    broken_json,
    error,
    json_reply,
    page,
)
from tests.retrieval.reranking.servers import (
    DOCUMENTS,
    KEY,
    PROPER,
    QUERY,
    check_refused,
    results,
    settings,
)

Opened = Callable[..., RerankEndpoint]

BASE, PATH = "/v2", "/v2/rerank"
"""Behind ``https://api.cohere.com``."""


@pytest.fixture
def sleeps() -> list[float]:
    return []


@pytest.fixture
def reranker(server: Server, sleeps: list[float]) -> Iterator[Opened]:
    """Opens rerankers for the server, which are closed in the end."""
    made: list[RerankEndpoint] = []

    def opened(**changed: Any) -> RerankEndpoint:
        made.append(RerankEndpoint(settings(server, BASE, **changed), "cohere", sleeps.append))
        return made[-1]

    yield opened
    for one in made:
        one.close()


@pytest.fixture
def with_key(reranker: Opened, monkeypatch: pytest.MonkeyPatch) -> RerankEndpoint:
    monkeypatch.setenv("RERANK_KEY", KEY)
    return reranker(api_key_variable="RERANK_KEY")


def test_scores_stand_in_the_order_of_the_documents(server: Server, reranker: Opened) -> None:
    found = reranker().score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert found.tolist() == PROPER
    (request,) = server.received
    assert request.path == PATH
    assert request.body == {"model": "tiny", "query": QUERY, "documents": DOCUMENTS, "top_n": 3}
    assert "authorization" not in request.headers


def test_cohere_s_own_answer_is_read(
    server: Server, reranker: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request and an answer of ``POST /v2/rerank`` as Cohere's reference has them."""
    monkeypatch.setenv("CO_API_KEY", KEY)
    rows = [(2, 0.999071), (0, 0.7867867), (1, 0.32713068)]
    answer = {
        "results": [{"index": row, "relevance_score": score} for row, score in rows],
        "id": "07734bd2-2473-4f07-94e1-0d9f0e6843cf",
        "meta": {
            "api_version": {"version": "2", "is_experimental": False},
            "billed_units": {"search_units": 1},
        },
    }
    server.on(QUERY, json_reply(answer))
    asked = reranker(api_key_variable="CO_API_KEY")
    found = asked.score(QUERY, DOCUMENTS)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [0.7867867, 0.32713068, 0.999071]
    (request,) = server.received
    assert request.path == PATH
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert set(request.body) <= {"model", "query", "documents", "top_n", "max_tokens_per_doc"}
    assert (asked.n_scored, asked.tokens) == (3, None)


def test_the_key_is_sent_and_never_told(server: Server, with_key: RerankEndpoint) -> None:
    server.on(QUERY, error(400, f"bad request with {KEY}"), error(401, f"who is {KEY}?"))
    found = with_key.score(QUERY, DOCUMENTS)
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert found == Failed("HTTP 400: bad request with [key]")
    with pytest.raises(ModelUnavailable) as raised:
        with_key.score(QUERY, DOCUMENTS)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_no_request_can_pass_is_one_error(
    server: Server, reranker: Opened, status: int
) -> None:
    server.on(QUERY, error(status, "no"))
    with pytest.raises(ModelUnavailable, match=f"HTTP {status}: no.; check base_url") as raised:
        reranker().score(QUERY, DOCUMENTS)
    assert f"{server.root}{PATH}, model 'tiny'" in str(raised.value)
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
    assert len(server.received) == 3


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
    check_refused(reranker().score(QUERY, DOCUMENTS), server)
