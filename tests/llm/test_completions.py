from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.llm.budget import Budget, BudgetReached, Limits
from rag_assets.llm.client import ChatRequest
from rag_assets.llm.completions import (
    Completions,
    Counts,
    Estimate,
    estimate,
    shown_by,
)
from rag_assets.llm.replies import ReplyStore
from rag_assets.servers.client import MAX_UNSERVED
from tests.llm import server as replies
from tests.llm.requests import asking, completion, failure, model, untimed
from tests.llm.server import Server, serving

ASKED = [asking(f"question {i}") for i in range(10)]


def completions(
    server: Server, folder: Path, limits: Limits | None = None, **settings: Any
) -> Completions:
    chat = model(server, **{"retries": 0, **settings})
    return Completions(chat, ReplyStore(folder), Budget(limits))


def estimated(
    server: Server, folder: Path, requests: list[ChatRequest], limits: Limits | None = None
) -> Estimate:
    return estimate(requests, model(server).identity, ReplyStore(folder), limits or Limits())


def tokens(n: int, max_tokens: int = 256) -> int:
    """The most tokens of requests such as those of ``ASKED``: their bytes, and what is around."""
    return n * (10 + 32 + max_tokens)


def test_equal_requests_are_asked_once_and_never_again(server: Server, tmp_path: Path) -> None:
    first = completions(server, tmp_path)
    assert estimated(server, tmp_path, ASKED + ASKED) == Estimate(0, 10, None, tokens(10))
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


def test_answers_come_as_they_arrive(server: Server, tmp_path: Path) -> None:
    completions(server, tmp_path).answer(ASKED[5:6])
    server.on("question 0", replies.hangs(0.3))
    twice = [*ASKED[:3], ASKED[5], ASKED[0]]
    order = [number for number, _ in completions(server, tmp_path, concurrency=2).complete(twice)]
    assert order == [3, 1, 2, 0, 4]
    assert server.most_at_once == 2


def test_every_reply_is_stored_before_another_request_is_sent(
    server: Server, tmp_path: Path
) -> None:
    store = ReplyStore(tmp_path)
    open_ones = []
    real = server.reply

    def reply(request: replies.Received) -> replies.Reply:
        # Counted before the store is read: what arrives meanwhile is not open too long.
        n_received = len(server.received) + 1
        known = store.get(model(server).identity, ASKED)
        open_ones.append(n_received - sum(one is not None for one in known))
        return real(request)

    server.reply = reply  # type: ignore[method-assign]
    completions(server, tmp_path, concurrency=3).answer(ASKED)
    assert max(open_ones) <= 3
    assert len(open_ones) == 10


def test_a_stopped_run_resumes_with_what_is_missing(server: Server, tmp_path: Path) -> None:
    stopped = completions(server, tmp_path, Limits(max_calls=6))
    with pytest.raises(BudgetReached, match="6 answers are there and kept, 4 are missing"):
        stopped.answer(ASKED)
    assert len(server.received) == 6
    with pytest.raises(BudgetReached, match="6 answers are there and kept, 4 are missing"):
        stopped.answer(ASKED)  # an evaluation has one budget for all that it does
    assert len(server.received) == 6
    resumed = completions(server, tmp_path, Limits(max_calls=6))
    assert estimated(server, tmp_path, ASKED) == Estimate(6, 4, None, tokens(4))
    assert len(resumed.answer(ASKED)) == 10
    assert sorted(r.text for r in server.received) == sorted(f"question {i}" for i in range(10))


def test_cost_is_never_passed(server: Server, tmp_path: Path) -> None:
    limits = Limits(max_cost=0.0012, prompt_price=1.0, completion_price=1.0)
    found = estimated(server, tmp_path, ASKED, limits)
    assert found.cost_at_most == pytest.approx(tokens(10) / 1e6, abs=1e-12)
    bought = completions(server, tmp_path, limits)
    assert len(bought.answer(ASKED)) == 10  # what is really used is far below the bound
    assert bought.budget.cost == pytest.approx(10 * 14 / 1e6, abs=1e-12)
    tight = Limits(max_cost=0.0004, prompt_price=1.0, completion_price=1.0)
    more = [asking(f"{i} more") for i in range(30)]
    stopped = completions(server, tmp_path, tight)
    with pytest.raises(BudgetReached, match=r"LLM max_cost 0\.0004"):
        stopped.answer(more)
    assert 0 < stopped.budget.cost <= 0.0004


def test_a_wrong_key_stops_at_once(server: Server, tmp_path: Path) -> None:
    server.on("question 1", replies.error(401, "who are you"))
    with pytest.raises(ModelUnavailable, match=r"API key is not accepted \(HTTP 401: who are you"):
        completions(server, tmp_path, concurrency=1).answer(ASKED)
    assert len(server.received) == 2
    assert estimated(server, tmp_path, ASKED) == Estimate(1, 9, None, tokens(9))
    with pytest.raises(ModelUnavailable, match="API key is not accepted"):
        completions(server, tmp_path / "other", concurrency=4).answer(ASKED)
    # What was on its way when the refusal came is stored too.
    sent = len(server.received) - 2
    assert estimated(server, tmp_path / "other", ASKED).cached == sent - 1


def test_a_server_that_does_not_serve_is_given_up(tmp_path: Path) -> None:
    many = [asking(f"question {i}") for i in range(40)]
    with serving() as server:
        server.on("question", replies.error(503, "busy"))
        with pytest.raises(ModelUnavailable, match=r"8 requests in a row.*HTTP 503: busy"):
            completions(server, tmp_path).answer(many)
        assert MAX_UNSERVED <= len(server.received) < MAX_UNSERVED + 4
        server.forget_rules()
        server.on("question 1", replies.error(503, "busy"))  # and 10 to 19: not in a row
        answers = completions(server, tmp_path).answer(many[:8])
        assert failure(answers[1]).retryable


def test_progress(server: Server, tmp_path: Path) -> None:
    told: list[Counts] = []
    server.on("question 2", replies.error(400, "no"))
    limits = Limits(prompt_price=1e5, completion_price=0)
    chat = model(server, concurrency=1)
    completions(server, tmp_path, concurrency=1).answer(ASKED[:1])
    asked = Completions(chat, ReplyStore(tmp_path), Budget(limits), progress=told.append)
    asked.answer([*ASKED[:4], *ASKED[:4]])
    assert told == [
        Counts(1, 0, 3, 0.0),
        Counts(2, 0, 2, 1.0),
        Counts(2, 1, 1, 1.0),
        Counts(3, 1, 0, 2.0),
    ]
    shown: list[tuple[object, ...]] = []
    show = shown_by(lambda done, total=None, note="", /: shown.append((done, total, note)))
    show(told[0])
    show(told[-1])
    show(Counts(3, 0, 1, None))
    assert shown == [(1, 4, "cost 0"), (4, 4, "1 failed, cost 2"), (3, 4, "")]


def test_what_is_given_up_by_its_reader_is_stored(server: Server, tmp_path: Path) -> None:
    asked = completions(server, tmp_path, concurrency=2)
    arriving = asked.complete(ASKED)
    number, answer = next(arriving)
    del arriving
    sent = len(server.received)
    assert sent <= 3
    found = asked.store.get(asked.model.identity, ASKED)
    assert sum(one is not None for one in found) == sent
    assert untimed([completion(answer)]) == untimed([found[number] or failure(answer)])
    assert [path.suffix for path in tmp_path.iterdir()] == [".parquet"]
