from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.completions import BudgetReached
from rag_assets.retrieval.reranking.candidates import Candidates, Reranked
from rag_assets.retrieval.reranking.server import RerankApi, RerankEndpoint
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.failures import Failed
from tests.llm.requests import served
from tests.llm.server import Reply, Server, broken_json, error, json_reply, page, shared_words

DOCUMENTS = ["a dog", "the wind", "wind in the northern harbour", "a dog"]


def asked(query: str, texts: Sequence[str] = DOCUMENTS) -> Candidates:
    ids = [str(number) for number in range(len(texts))]
    return Candidates(f"id of {query}", query, ids, texts, np.zeros(len(texts)))


def config(server: Server, **options: object) -> RerankApi:
    plain = {"type": "rerank_api", "input": "bm25", "base_url": server.root, "model": "tiny"}
    return RerankApi.model_validate({**plain, "retries": 1, "backoff": 0.0, **options})


def rerank(chosen: RerankApi, queries: Sequence[str], cache: Path | None = None) -> Reranked:
    return chosen.rerank([asked(query) for query in queries], Workspace(cache))


def test_every_query_gets_its_scores_and_equal_documents_are_sent_once(server: Server) -> None:
    queries = [f"wind {number}" for number in range(9)]
    found = rerank(config(server), queries)
    for query, scores in zip(queries, found.scores, strict=True):
        assert scores.tolist() == [shared_words(query, text) for text in DOCUMENTS]
    assert found.failures == {}
    assert {tuple(one.body["documents"]) for one in server.received} == {tuple(DOCUMENTS[:3])}
    assert server.most_at_once <= 4


def test_a_query_that_fails_tells_why_and_takes_no_other_down(server: Server) -> None:
    server.on("storm", error(400, "too long"))
    found = rerank(config(server), ["wind", "storm", "dog"])
    assert found.failures == {"id of storm": "HTTP 400: too long"}
    assert np.isfinite([*found.scores[0], *found.scores[2]]).all()


def test_what_was_scored_is_not_asked_again_and_what_failed_is(
    server: Server, tmp_path: Path
) -> None:
    server.on("storm", error(503), error(503))
    first = rerank(config(server), ["wind", "storm"], tmp_path)
    assert list(first.failures) == ["id of storm"]
    server.forget_rules()
    server.received.clear()
    again = rerank(config(server), ["wind", "storm"], tmp_path)
    assert again.failures == {}
    assert {one.text for one in server.received} == {"storm"}
    assert again.scores[0].tobytes() == first.scores[0].tobytes()
    server.received.clear()
    rerank(config(server, batch_size=2, concurrency=1), ["wind", "storm"], tmp_path)
    assert server.received == []


def test_queries_of_the_same_text_are_asked_once_and_fail_together(server: Server) -> None:
    one, other = asked("wind", DOCUMENTS[:2]), asked("wind", DOCUMENTS[1:])
    both = [one._replace(query_id="a"), other._replace(query_id="b")]
    found = config(server).rerank(both, Workspace())
    assert [list(one.body["documents"]) for one in server.received] == [DOCUMENTS[:3]]
    assert found.scores[1].tolist() == [shared_words("wind", text) for text in DOCUMENTS[1:]]
    server.on("wind", error(400))
    assert set(config(server).rerank(both, Workspace()).failures) == {"a", "b"}


def test_what_came_before_a_failure_is_kept(server: Server, tmp_path: Path) -> None:
    chosen = config(server, batch_size=1, retries=0)
    proper = json_reply({"results": [{"index": 0, "relevance_score": 0.5}]})
    server.on("wind", proper, error(400))
    assert rerank(chosen, ["wind"], tmp_path).failures
    server.forget_rules()
    server.received.clear()
    found = rerank(chosen, ["wind"], tmp_path)
    assert [one.body["documents"] for one in server.received] == [DOCUMENTS[1:2], DOCUMENTS[2:3]]
    assert found.scores[0][0] == found.scores[0][3] == 0.5


def test_a_server_that_does_not_serve_is_left_alone(server: Server, tmp_path: Path) -> None:
    server.on("storm", error(503, "down"))
    queries = ["wind", *(f"storm {number}" for number in range(100))]
    with pytest.raises(ModelUnavailable, match=r"8 requests in a row failed.*HTTP 503"):
        rerank(config(server), queries, tmp_path)
    assert len(server.received) < 40
    server.received.clear()
    assert rerank(config(server), ["wind"], tmp_path).failures == {}
    assert server.received == []


def test_max_calls_are_never_passed_and_what_was_scored_is_kept(
    server: Server, tmp_path: Path
) -> None:
    queries = [f"wind {number}" for number in range(4)]
    few = config(server, batch_size=2, max_calls=5)  # three different documents: two requests
    assert few.described() == config(server).described()
    with pytest.raises(BudgetReached, match=r"max_calls 5 would be passed \(4 requests\)"):
        rerank(few, queries, tmp_path)
    assert len(server.received) == 4
    found = rerank(few, queries, tmp_path)
    assert len(server.received) == 8
    assert found.failures == {}
    assert np.isfinite(np.concatenate(found.scores)).all()
    with pytest.raises(BudgetReached, match=r"\(0 requests\); what comes next takes 2 at once, so"):
        rerank(config(server, batch_size=2, max_calls=1), ["other wind"], tmp_path)


KEY = "sk-very-secret"
QUERY = "wind in the harbour"
SENT = ["a dog", "the wind", "wind in the northern harbour"]


def opened(server: Server, dialect: Any = "cohere", **options: Any) -> RerankEndpoint:
    return RerankEndpoint(served(f"{server.root}/v2", **options), dialect)


def results(*scores: object) -> Reply:
    """Return an answer as the protocol has it."""
    rows = [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]
    return json_reply({"id": "x", "results": rows})


def score(server: Server, dialect: Any = "cohere", **options: Any) -> Any:
    with closing(opened(server, dialect, **options)) as endpoint:
        return endpoint.score(QUERY, SENT)


def test_cohere_s_own_answer_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
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
    found = score(server, api_key_env="CO_API_KEY")
    assert (found.dtype, found.tolist()) == (np.float64, [0.7867867, 0.32713068, 0.999071])
    (request,) = server.received
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.path == "/v2/rerank"
    assert request.body == {"model": "tiny", "query": QUERY, "documents": SENT, "top_n": 3}


def test_the_dialect_of_text_embeddings_inference(server: Server) -> None:
    rows = [{"index": 2, "score": 0.9}, {"index": 0, "score": 0.1}, {"index": 1, "score": 0.2}]
    server.on(QUERY, json_reply(rows))
    assert score(server, "tei").tolist() == [0.1, 0.2, 0.9]
    assert server.received[0].body == {"query": QUERY, "texts": SENT, "truncate": True}
    assert "authorization" not in server.received[0].headers


def test_what_the_server_counted(server: Server) -> None:
    rows = [{"index": 0, "relevance_score": 0.5}]
    server.on(
        QUERY,
        json_reply({"results": rows, "usage": {"total_tokens": 7}}),
        json_reply({"results": rows, "usage": {"total_tokens": "many"}}),
        json_reply({"results": [], "usage": {"total_tokens": 7}}),
    )
    with closing(opened(server)) as asked:
        for _ in range(3):
            asked.score(QUERY, SENT[:1])
    assert asked.tokens == 7, "an answer that is refused counts for nothing"


def test_a_key_that_cannot_be_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", "sk-sécret")
    with pytest.raises(UsageError, match="RERANK_KEY holds no API key") as refused:
        opened(server, api_key_env="RERANK_KEY")
    assert "sécret" not in str(refused.value)


@pytest.mark.parametrize(
    "reply",
    [
        broken_json(),
        page(),
        json_reply({}),
        json_reply({"results": None}),
        json_reply({"results": [1, 2, 3]}),
        json_reply("results"),
        json_reply(None),
        results(1, 2),
        results(1, 2, 3, 4),
        results(1, None, 3),
        Reply(200, b'{"results": [{"index": 0, "relevance_score": NaN}]}'),
        json_reply({"results": [{"index": 0, "relevance_score": i} for i in range(3)]}),
        json_reply({"results": [{"index": i - 1, "relevance_score": i} for i in range(3)]}),
        json_reply({"results": [{"relevance_score": i} for i in range(3)]}),
        Reply(200, b"[" * 200_000),
    ],
)
def test_what_the_protocol_does_not_say_fails_this_query_only(server: Server, reply: Reply) -> None:
    server.on(QUERY, reply)
    failed = score(server)
    assert isinstance(failed, Failed)
    assert not failed.retryable
    assert failed.reason.startswith("the answer does not follow the protocol")
    assert len(failed.reason) < 300
    assert len(server.received) == 1
