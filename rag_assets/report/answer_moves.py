"""The questions that two answerers differ most on: what is right, and what either answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rag_assets.answers.stage import answers_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.report.comparisons import Compared
from rag_assets.report.formats import Row
from rag_assets.report.rank_moves import gains, most_moved, outcome
from rag_assets.report.result import EvaluationResult


@dataclass(frozen=True)
class MovedAnswer:
    """One question, the metric of either answerer, and both answers.

    Attributes:
        query_id: the question.
        text: what is asked.
        value_a: the metric of one.
        value_b: of the other.
        golds: what is right; any of them.
        unanswerable: whether the data says that nothing is.
        answer_a: empty: refused; None: failed.
        answer_b: likewise.
    """

    query_id: str
    text: str
    value_a: float
    value_b: float
    golds: tuple[str, ...]
    unanswerable: bool
    answer_a: str | None
    answer_b: str | None

    def row(self) -> Row:
        """Return it for programs."""
        return {**asdict(self), "difference": self.value_b - self.value_a}


def moved_answers(
    compared: Compared, a: str, b: str, n: int
) -> tuple[list[MovedAnswer], list[MovedAnswer]]:
    """Return the ``n`` questions that b wins most, and those that it loses most, largest first."""
    won, lost = most_moved(compared, a, b, n)
    answers = _moved(compared, a, b, [*won, *lost])
    return answers[: len(won)], answers[len(won) :]


def answer_move_rows(compared: Compared, a: str, b: str) -> list[Row]:
    """Return one mapping a question, what b won most first, the lost last; with its outcome."""
    gained = gains(compared, a, b)
    rows = [one.row() for one in _moved(compared, a, b, list(gained))]
    return [{"outcome": outcome(gained[str(row["query_id"])]), **row} for row in rows]


def _moved(compared: Compared, a: str, b: str, query_ids: Sequence[str]) -> list[MovedAnswer]:
    result = compared.result
    values_a, values_b = compared.values(a), compared.values(b)
    answers_a, answers_b = answers_of(result, a), answers_of(result, b)
    queries, facts = result.queries, result.table(QUERY_FACTS_KEY)
    texts = dict(zip(*(queries[name].to_pylist() for name in ("query_id", "text")), strict=True))
    golds = dict(zip(*(facts[name].to_pylist() for name in ("query_id", "answers")), strict=True))
    return [
        MovedAnswer(
            one,
            texts[one],
            values_a[one],
            values_b[one],
            tuple(golds[one]),
            not golds[one] and result.answerable[one] is False,
            answers_a.get(one),
            answers_b.get(one),
        )
        for one in query_ids
    ]


def answers_of(result: EvaluationResult, answerer: str) -> dict[str, str | None]:
    """Return question -> answer of an answerer at its cut-off; empty: refused, None: failed."""
    table = result.table(answers_key(answerer)).select(["query_id", "answer"])
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def answer_text(answer: str | None) -> str:
    """Return an answer in one line, as people read it."""
    if answer is None:
        return "(failed)"
    return " ".join(answer.split()) or "(refused)"
