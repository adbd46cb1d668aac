from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.llm.client import Answer, ChatRequest, Completion
from rag_assets.llm.completions import (
    MESSAGE_TOKENS,
    Budget,
    BudgetReached,
    Completions,
    Estimate,
    Limits,
    estimate,
)
from rag_assets.llm.replies import ReplyStore
from rag_assets.progress import Advance
from rag_assets.servers.client import MAX_UNSERVED
from rag_assets.servers.failures import Failed
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
    texts = [completion(answer).text for answer in answers[:10]]
    assert texts == [f"answer to: question {i}" for i in range(10)]
    assert answers[10:] == answers[9::-1]
    assert (len(server.received), first.budget.calls) == (10, 10)
    again = completions(server, tmp_path)
    assert estimated(server, tmp_path, ASKED) == Estimate(10, 0, None)
    assert again.answer(ASKED) == answers[:10]
    assert (len(server.received), again.budget.calls) == (10, 0)


def test_answers_come_as_they_arrive(server: Server, tmp_path: Path) -> None:
    completions(server, tmp_path).answer(ASKED[5:6])
    server.on("question 0", replace(replies.says("late"), hang=0.3))
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
    told = (
        r"LLM max_calls 6 would be passed \(6 calls\): of this step, 6 answers are stored and 4 "
        "are missing, and later steps may ask for more; run again to go on"
    )
    for _ in range(2):  # an evaluation has one budget for all that it does
        with pytest.raises(BudgetReached, match=told):
            stopped.answer(ASKED)
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
    with pytest.raises(BudgetReached, match=r"LLM max_cost 0\.0004.*; run again"):
        stopped.answer(more)
    assert 0 < stopped.budget.cost <= 0.0004


def test_a_limit_that_no_request_fits_advises_no_further_run(
    server: Server, tmp_path: Path
) -> None:
    cheap = limited(max_cost=MOST / 2)
    for limits, advice in (
        (cheap, "may cost 0.000764: lower"),
        (Limits(max_calls=0), "more; raise"),
    ):
        with pytest.raises(BudgetReached, match=advice) as stopped:
            completions(server, tmp_path, limits).answer([ONE])
        assert ("run again" in str(stopped.value), len(server.received)) == (False, 0)


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
        assert failure(completions(server, tmp_path).answer(many[:8])[1]).retryable


def test_progress_and_limits_count_what_failed(server: Server, tmp_path: Path) -> None:
    told: list[tuple[object, ...]] = []
    server.on("question 2", replies.error(400, "no"))
    limits = Limits(prompt_price=1e5, completion_price=0)
    chat = model(server, concurrency=1)
    completions(server, tmp_path, concurrency=1).answer(ASKED[:1])
    show: Advance = lambda done, total=None, note="", /: told.append((done, total, note))  # noqa: E731
    Completions(chat, ReplyStore(tmp_path), Budget(limits), progress=show).answer(ASKED[:4] * 2)
    failed = "1 failed, cost "
    assert told == [(1, 4, "cost 0"), (2, 4, "cost 1"), (3, 4, f"{failed}1"), (4, 4, f"{failed}2")]
    with pytest.raises(BudgetReached, match="3 answers are stored and 7 are missing"):
        completions(server, tmp_path, Limits(max_calls=1)).answer(ASKED)


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


PRICED = Limits(prompt_price=2.0, completion_price=10.0)
ONE = asking("x" * 100, max_tokens=50)
MOST = (100 + 2 * MESSAGE_TOKENS) * 2e-6 + 50 * 10e-6


def limited(**limits: float) -> Limits:
    return PRICED.model_copy(update=limits)


def reserved(limits: Limits, wishes: int = 5) -> int:
    """How many requests may be on their way at once."""
    budget = Budget(limits)
    return sum(budget.reserve(ONE) for _ in range(wishes))


def after(limits: Limits, answer: Answer) -> Budget:
    """The budget when one request is answered."""
    budget = Budget(limits)
    assert budget.reserve(ONE)
    budget.spend(ONE, answer)
    return budget


def test_calls_are_counted_and_limited() -> None:
    assert reserved(Limits()) == 5
    assert [reserved(Limits(max_calls=n)) for n in (3, 0)] == [3, 0]
    for answer, tokens in ((Completion("a", 5, 5, "stop"), 10), (Failed("no", retryable=True), 0)):
        budget = after(Limits(max_calls=3), answer)
        assert (budget.calls, budget.cost, budget.tokens) == (1, 0.0, tokens)
        assert [budget.reserve(ONE) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("answer", "cost"),
    [
        (Completion("a", None, None, "stop"), MOST),
        (Completion("a", 5, None, "stop"), MOST),
        (Failed("broken", maybe_paid=True), MOST),
        (Failed("HTTP 400"), 0.0),
    ],
)
def test_unknown_cost_counts_as_the_most(answer: Completion | Failed, cost: float) -> None:
    assert after(PRICED, answer).cost == pytest.approx(cost, abs=1e-15)


def test_what_surely_fits_is_counted_in_bytes() -> None:
    assert reserved(limited(max_cost=2.5 * MOST)) == 2
    assert reserved(limited(max_cost=0.9 * MOST)) == 0
    assert reserved(limited(max_calls=1, max_cost=9.0)) == 1
    cheap = after(limited(max_cost=2.5 * MOST), Completion("a", 0, 0, "stop"))
    assert [cheap.reserve(ONE) for _ in range(3)] == [True, True, False]
    limits = PRICED
    plain, chinese = (limits.cost_at_most(asking(text, max_tokens=1)) for text in ("ab", "日本"))
    assert chinese - plain == pytest.approx(4 * 2e-6, abs=1e-15)
