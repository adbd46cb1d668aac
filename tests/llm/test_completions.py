from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.llm.budget import Budget, BudgetReached, Limits
from rag_assets.llm.client import ChatRequest
from rag_assets.llm.completions import (
    GIVE_UP_AFTER,
    CompletionCache,
    Completions,
    Estimate,
    estimate,
)
from tests.llm import server as replies
from tests.llm.requests import asking, completion, failure, model
from tests.llm.server import Server, serving

ASKED = [asking(f"question {i}") for i in range(10)]


def completions(
    server: Server, folder: Path, limits: Limits | None = None, *, batch: int = 4, retries: int = 0
) -> Completions:
    asked = model(server, retries=retries)
    return Completions(asked, CompletionCache(folder), Budget(limits), batch=batch)


def estimated(
    server: Server, folder: Path, requests: list[ChatRequest], limits: Limits | None = None
) -> Estimate:
    identity = model(server).identity
    return estimate(requests, identity, CompletionCache(folder), limits or Limits())


def test_equal_requests_are_asked_once_and_never_again(server: Server, tmp_path: Path) -> None:
    first = completions(server, tmp_path)
    assert estimated(server, tmp_path, ASKED + ASKED) == Estimate(0, 10, None)
    answers = first.answer(ASKED + ASKED[::-1])
    assert [completion(a).text for a in answers[:10]] == [
        f"answer to: question {i}" for i in range(10)
    ]
    assert answers[10:] == answers[9::-1]
    assert (len(server.received), first.budget.calls) == (10, 10)
    again = completions(server, tmp_path)
    assert estimated(server, tmp_path, ASKED) == Estimate(10, 0, None)
    assert again.answer(ASKED) == answers[:10]
    assert (len(server.received), again.budget.calls) == (10, 0)


def test_a_stopped_run_resumes_with_what_is_missing(server: Server, tmp_path: Path) -> None:
    stopped = completions(server, tmp_path, Limits(max_calls=6))
    with pytest.raises(BudgetReached, match="6 answers are there and kept, 4 are missing"):
        stopped.answer(ASKED)
    assert len(server.received) == 6
    with pytest.raises(BudgetReached, match="6 answers are there and kept, 4 are missing"):
        stopped.answer(ASKED)  # an evaluation has one budget for all that it does
    assert len(server.received) == 6
    resumed = completions(server, tmp_path, Limits(max_calls=6))
    assert estimated(server, tmp_path, ASKED) == Estimate(6, 4, None)
    assert len(resumed.answer(ASKED)) == 10
    assert sorted(r.text for r in server.received) == sorted(f"question {i}" for i in range(10))


def test_cost_is_never_passed(server: Server, tmp_path: Path) -> None:
    limits = Limits(max_cost=0.0012, prompt_price=1.0, completion_price=1.0)
    found = estimated(server, tmp_path, ASKED, limits)
    assert found.cost_at_most == pytest.approx(10 * (10 + 32 + 256) / 1e6, abs=1e-12)
    bought = completions(server, tmp_path, limits)
    assert len(bought.answer(ASKED)) == 10  # what is really used is far below the bound
    assert bought.budget.cost == pytest.approx(10 * 14 / 1e6, abs=1e-12)
    tight = Limits(max_cost=0.0004, prompt_price=1.0, completion_price=1.0)
    more = [asking(f"{i} more") for i in range(30)]
    stopped = completions(server, tmp_path, tight)
    with pytest.raises(BudgetReached, match=r"LLM max_cost 0\.0004"):
        stopped.answer(more)
    assert 0 < stopped.budget.cost <= 0.0004


def test_failures_are_asked_again(server: Server, tmp_path: Path) -> None:
    server.on("question 3", replies.broken_json(), replies.says("now"))
    server.on("question 4", replies.refuses("never"))
    answers = completions(server, tmp_path).answer(ASKED)
    assert failure(answers[3]).kind == "answer"
    assert completion(answers[4]).text == "never"
    again = completions(server, tmp_path).answer(ASKED)
    assert completion(again[3]).text == "now"
    assert again[:3] + again[4:] == answers[:3] + answers[4:]
    assert len(server.received) == 11


def test_a_wrong_key_stops_after_one_batch(server: Server, tmp_path: Path) -> None:
    server.on("question 1", replies.error(401, "who are you"))
    with pytest.raises(ModelUnavailable, match=r"API key is not accepted \(HTTP 401: who are you"):
        completions(server, tmp_path).answer(ASKED)
    assert len(server.received) == 4
    assert estimated(server, tmp_path, ASKED) == Estimate(3, 7, None)


def test_a_server_that_does_not_serve_is_given_up(tmp_path: Path) -> None:
    many = [asking(f"question {i}") for i in range(40)]
    with serving() as server:
        server.on("question", replies.error(503, "busy"))
        with pytest.raises(ModelUnavailable, match=r"8 requests in a row.*HTTP 503: busy"):
            completions(server, tmp_path).answer(many)
        assert len(server.received) == GIVE_UP_AFTER
        server.forget_rules()
        server.on("question 1", replies.error(503, "busy"))  # and 10 to 19: not in a row
        answers = completions(server, tmp_path, batch=3).answer(many[:8])
        assert failure(answers[1]).kind == "transient"


def test_progress_and_batches(server: Server, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    cache = CompletionCache(tmp_path)
    asked = Completions(
        model(server), cache, batch=4, progress=lambda done, total: told.append((done, total))
    )
    asked.answer(ASKED)
    assert told == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert len(list(tmp_path.iterdir())) == 3  # a segment a batch
