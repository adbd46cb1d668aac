from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assets.errors import ModelUnavailable
from rag_assets.llm.completions import BudgetReached
from rag_assets.retrieval.derived import Reranked
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.server import RerankApi
from rag_assets.retrieval.workspace import Workspace
from tests.llm.server import Server, error, json_reply, shared_words

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
    with pytest.raises(ModelUnavailable, match=r"8 requests in a row were not served.*HTTP 503"):
        rerank(config(server), queries, tmp_path)
    assert len(server.received) < 40
    server.received.clear()
    assert rerank(config(server), ["wind"], tmp_path).failures == {}
    assert server.received == []


def test_the_key_and_how_is_asked_determine_no_result(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERANK_KEY", "sk-very-secret")
    one, other = config(server, api_key_env="RERANK_KEY", timeout=1), config(server, batch_size=3)
    told = str([one.described(), one.describe(), one])
    assert "sk-very-secret" not in told
    assert (one.described(), one.describe()) == (other.described(), other.describe())
    assert one.describe() != config(server, model="other").describe()


@pytest.mark.parametrize(
    ("base_url", "problem"),
    [
        ("api.example.org", "begins with http"),
        ("http://example.org:port", "a port from 0 to 65535"),
        ("ftp://example.org", "begins with http"),
        ("https://me:secret@example.org", "no user, password or query"),
        ("https://example.org/v1?key=secret", "no user, password or query"),
    ],
)
def test_an_address_holds_no_secret(server: Server, base_url: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        config(server, base_url=base_url)


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
