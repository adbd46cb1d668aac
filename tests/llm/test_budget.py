from __future__ import annotations

import pytest

from rag_assets.llm.budget import MESSAGE_TOKENS, Budget, Limits
from rag_assets.llm.client import Answer, Completion
from rag_assets.servers.failures import Failed
from tests.llm.requests import asking

PRICED = Limits(prompt_price=2.0, completion_price=10.0)
ASKED = asking("x" * 100, max_tokens=50)
MOST = (100 + 2 * MESSAGE_TOKENS) * 2e-6 + 50 * 10e-6


def limited(**limits: float) -> Limits:
    return PRICED.model_copy(update=limits)


def reserved(limits: Limits, wishes: int = 5) -> int:
    """How many requests may be on their way at once."""
    budget = Budget(limits)
    return sum(budget.reserve(ASKED) for _ in range(wishes))


def after(limits: Limits, answer: Answer) -> Budget:
    """The budget when one request is answered."""
    budget = Budget(limits)
    assert budget.reserve(ASKED)
    budget.spend(ASKED, answer)
    return budget


def test_without_limits_it_counts() -> None:
    assert reserved(Limits()) == 5
    budget = after(Limits(), Completion("a", 5, 5, "stop"))
    assert (budget.calls, budget.cost, budget.tokens) == (1, 0.0, 10)


def test_calls() -> None:
    assert reserved(Limits(max_calls=3)) == 3
    assert reserved(Limits(max_calls=0)) == 0
    for answer in (Completion("a", 1, 1, "stop"), Failed("no", retryable=True)):
        budget = after(Limits(max_calls=3), answer)
        assert [budget.reserve(ASKED) for _ in range(3)] == [True, True, False]
        assert budget.calls == 3


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
    budget = after(PRICED, answer)
    assert budget.cost == pytest.approx(cost, abs=1e-15)


def test_only_what_surely_fits_is_sent() -> None:
    assert reserved(limited(max_cost=2.5 * MOST)) == 2
    assert reserved(limited(max_cost=0.9 * MOST)) == 0
    assert reserved(limited(max_calls=1, max_cost=9.0)) == 1
    cheap = after(limited(max_cost=2.5 * MOST), Completion("a", 0, 0, "stop"))
    assert [cheap.reserve(ASKED) for _ in range(3)] == [True, True, False]


def test_bytes_are_counted_not_characters() -> None:
    limits = PRICED
    plain, chinese = (limits.cost_at_most(asking(text, max_tokens=1)) for text in ("ab", "日本"))
    assert chinese - plain == pytest.approx(4 * 2e-6, abs=1e-15)


def test_message_says_which_limit() -> None:
    budget = Budget(limited(max_calls=1, max_cost=9.0))
    assert "LLM max_cost 9.0" in str(budget.reached(0, 5))
    assert budget.reserve(ASKED)
    budget.spend(ASKED, Completion("a", 1_000, 500, "stop"))
    error = budget.reached(1, 4)
    assert "LLM max_calls 1 would be passed (1 calls, cost 0.007)" in str(error)
    assert "1 answers are there and kept, 4 are missing" in str(error)
    assert error.exit_code == 3
