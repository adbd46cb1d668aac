"""Whether one retriever passes a gate, fails it, or nobody can tell; and how that is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rag_assets.errors import NotEstimable
from rag_assets.report.drop_causes import Causes, LostQuestion, causes_of
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.formats import four_places
from rag_assets.report.metric_choice import is_judged, is_of_answers, is_sampled
from rag_assets.report.metric_drops import Drop, drop_of
from rag_assets.report.unjudged_newcomers import CorpusChange, Newcomer
from rag_assets.statistics.pairs import holm
from rag_assets.statistics.repeated_looks import look_level, units_needed
from rag_assets.statistics.units import SAME

Answer = Literal["pass", "fail", "cannot tell"]
PASS: Answer = "pass"
FAIL: Answer = "fail"
CANNOT_TELL: Answer = "cannot tell"

MOST_QUESTIONS = 1_000_000
"""More questions than these are no advice."""


@dataclass(frozen=True)
class Rules:
    """What is allowed.

    Attributes:
        max_drop: by how much a mean may fall, in units of the metric.
        alpha: level of the one-sided tests of all looks at one anchor together.
    """

    max_drop: float = 0.01
    alpha: float = 0.05


@dataclass(frozen=True)
class Check:
    """One retriever.

    Attributes:
        retriever: its name; of an answerer with its cut-off, as ``plain@5``.
        against: the retriever that it is compared with: itself, or the baseline.
        answer: ``pass``, ``fail`` or ``cannot tell``.
        reason: why; None: the numbers say it.
        drop: what was measured; None: no query has a value in both, or it counts for nothing.
        p_adjusted: p after Holm's correction over the retrievers of the look; None: not tested.
        more_questions: so many more are expected to tell; None: it is told, or no number would.
        causes: why it fell; None: it passes, or no question of retrieval lost anything.
    """

    retriever: str
    against: str
    answer: Answer
    reason: str | None
    drop: Drop | None = None
    p_adjusted: float | None = None
    more_questions: int | None = None
    causes: Causes | None = None


def checks_of(pair: EvaluationPair, chosen: Sequence[tuple[str, str]], rules: Rules) -> list[Check]:
    """Test all retrievers of a look.

    Args:
        pair: two evaluations, a metric and a split.
        chosen: retrievers, each with that with which it is compared.
        rules: what is allowed.
    """
    drops = [_measured(pair, other, name, rules.alpha, len(chosen)) for name, other in chosen]
    adjusted = holm([one.p if isinstance(one, Drop) else None for one in drops])
    corpus = CorpusChange(pair)
    return [
        _check(pair, cell, drop, p, rules, corpus)
        for cell, drop, p in zip(chosen, drops, adjusted, strict=True)
    ]


def _measured(pair: EvaluationPair, old: str, new: str, alpha: float, n_tests: int) -> Drop | str:
    """Return the drop, or why there is none."""
    try:
        drop = drop_of(pair, old, new, alpha, n_tests)
    except NotEstimable as error:
        return str(error)
    return "no query has a value in both evaluations" if drop is None else drop


def _check(
    pair: EvaluationPair,
    cell: tuple[str, str],
    drop: Drop | str,
    p: float | None,
    rules: Rules,
    corpus: CorpusChange,
) -> Check:
    retriever, against = cell
    if isinstance(drop, str):
        answer = CANNOT_TELL if is_judged(pair.metric) else FAIL
        return Check(retriever, against, answer, drop)
    if drop.low is not None and drop.low >= -rules.max_drop - SAME:
        return Check(retriever, against, PASS, None, drop, p)
    is_explained = not is_of_answers(pair.metric) and not is_sampled(pair.metric)
    causes = causes_of(pair, against, retriever, corpus) if is_explained else None
    more = _more_questions(drop, rules)
    shown = p is not None and p < look_level(rules.alpha)
    unjudged = causes.unjudged if causes is not None else 0.0
    if drop.drop > rules.max_drop + SAME and shown:
        dropped = f"dropped by {drop.drop:.4f} (p = {four_places(p or 0.0)})"
        if drop.drop - unjudged > rules.max_drop + SAME:
            reason = f"{dropped}; {rules.max_drop:g} are allowed"
            return Check(retriever, against, FAIL, reason, drop, p, None, causes)
        reason = f"{dropped}, but {unjudged:.4f} of it is by documents that nobody has judged"
        return Check(retriever, against, CANNOT_TELL, reason, drop, p, None, causes)
    reason = _unknown(drop, rules, shown=shown, p=p, more=more)
    return Check(retriever, against, CANNOT_TELL, reason, drop, p, more, causes)


def _unknown(drop: Drop, rules: Rules, *, shown: bool, p: float | None, more: int | None) -> str:
    if drop.low is None:
        why = drop.reason or f"{drop.n} query is too few for an interval"
        return f"nothing is shown: {why}"
    allowed = f"{rules.max_drop:g} are allowed"
    if drop.drop > rules.max_drop + SAME and not shown:
        seen = f"dropped by {drop.drop:.4f}, which may be chance (p = {four_places(p or 1.0)}, "
        seen += f"below {look_level(rules.alpha):g} is needed)"
    else:
        seen = f"a drop of {-drop.low:.4f} is not ruled out"
    if more is None:
        return f"{seen}; {allowed}"
    questions = "question" if more == 1 else "questions"
    return f"{seen}; {allowed}; about {more:,} more {questions} would tell"


def _more_questions(drop: Drop, rules: Rules) -> int | None:
    """Return how many more questions tell with power 0.8, if the mean drop stays as it is.

    Below the allowed drop so many that rule more than that out; above it so many that show both
    that there is a drop and that it is more than allowed; of fewer than log2(1 / level) units that
    all fall, chance is never ruled out.
    """
    if not drop.error or not drop.n_units:
        return None
    beyond = drop.drop - rules.max_drop
    if beyond > SAME:
        bounds = [(drop.drop, look_level(rules.alpha)), (beyond, 0.5)]
    elif beyond < -SAME:
        bounds = [(-beyond, rules.alpha / 2)]
    else:
        return None
    units = max(units_needed(drop.error, drop.n_units, margin, level) for margin, level in bounds)
    if beyond > SAME:
        units = max(units, math.ceil(math.log2(1 / look_level(rules.alpha))))
    more = (units / drop.n_units - 1) * drop.n
    return max(1, _rounded(more)) if more < MOST_QUESTIONS else None


def _rounded(number: float) -> int:
    """Return a number with two digits; more would claim too much."""
    return int(float(f"{number:.2g}"))


def row_of_check(check: Check) -> dict[str, Any]:
    """Return a check as it is kept: without texts of questions, which only their files may hold."""
    row = asdict(check)
    for question in row["causes"]["lost"] if row["causes"] is not None else ():
        del question["text"]
    return row


def check_of_row(row: Mapping[str, Any], texts: Mapping[str, str]) -> Check:
    """Return a check that was kept.

    Args:
        row: see :func:`row_of_check`.
        texts: of the questions, by their ids.
    """
    drop, causes = row["drop"], row["causes"]
    if causes is not None:
        causes = Causes(
            **{
                **causes,
                "lost": tuple(
                    LostQuestion(**one, text=texts.get(one["query_id"], ""))
                    for one in causes["lost"]
                ),
                "newcomers": tuple(Newcomer(**one) for one in causes["newcomers"]),
            }
        )
    return Check(**{**row, "drop": None if drop is None else Drop(**drop), "causes": causes})
