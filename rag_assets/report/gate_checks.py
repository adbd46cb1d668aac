"""Whether one retriever passes a gate, fails it, or nobody can tell; and how that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rag_assets.report.drop_causes import (
    Causes,
    CorpusChange,
    LostQuestion,
    Newcomer,
    causes_of,
)
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.formats import four_places, more_questions_text, rounded
from rag_assets.report.metric_choice import is_judged, is_of_answers, is_sampled
from rag_assets.report.metric_drops import Drop, drops_of
from rag_assets.statistics.paired_differences import (
    MIN_UNITS,
    fewest_falls,
    look_level,
    units_needed,
)
from rag_assets.statistics.units import SAME

Answer = Literal["pass", "fail", "cannot tell"]
PASS: Answer = "pass"
FAIL: Answer = "fail"
CANNOT_TELL: Answer = "cannot tell"

MAX_QUESTIONS = 1_000_000
"""More questions than these are no advice."""

MIN_SILENT = 5
"""From so many questions on, returning nothing is no matter of chance."""


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
        p_adjusted: p, corrected for the retrievers of the look; None: not tested.
        more_questions: so many more are expected to tell where the drop stays as it is; None: it is
            told, or no number would.
        questions_if_half: so many are in all where the drop is half of that; None: as above.
        causes: why it fell; None: it passes, or no question of retrieval lost anything.
    """

    retriever: str
    against: str
    answer: Answer
    reason: str | None
    drop: Drop | None = None
    p_adjusted: float | None = None
    more_questions: int | None = None
    questions_if_half: int | None = None
    causes: Causes | None = None


def checks_of(pair: EvaluationPair, chosen: Sequence[tuple[str, str]], rules: Rules) -> list[Check]:
    """Test all retrievers of a look."""
    corpus = CorpusChange(pair)
    missing = CANNOT_TELL if is_judged(pair.metric) else FAIL
    return [
        Check(*cell, missing, drop)
        if isinstance(drop, str)
        else _check(pair, cell, drop, p, rules, corpus)
        for cell, (drop, p) in zip(chosen, drops_of(pair, chosen, rules.alpha), strict=True)
    ]


def _check(
    pair: EvaluationPair,
    cell: tuple[str, str],
    drop: Drop,
    p: float | None,
    rules: Rules,
    corpus: CorpusChange,
) -> Check:
    if drop.low is not None and drop.low >= -rules.max_drop - SAME:
        return Check(*cell, PASS, None, drop, p)
    retriever, against = cell
    is_explained = not is_of_answers(pair.metric) and not is_sampled(pair.metric)
    causes = causes_of(pair, against, retriever, corpus) if is_explained else None
    unjudged = causes.unjudged if causes is not None else 0.0
    allowed, level = f"{rules.max_drop:g} are allowed", look_level(rules.alpha)
    is_too_much = drop.drop > rules.max_drop + SAME
    if is_too_much and p is not None and p < level:
        dropped = f"dropped by {drop.drop:.4f} (p = {four_places(p)})"
        if drop.drop - unjudged > rules.max_drop + SAME:
            return Check(*cell, FAIL, f"{dropped}; {allowed}", drop, p, causes=causes)
        reason = f"{dropped}, but {unjudged:.4f} of it is by documents that nobody has judged"
        return Check(*cell, CANNOT_TELL, reason, drop, p, causes=causes)
    is_exhausted = pair.evidence is not None and pair.evidence.is_exhausted
    more, if_half = (None, None) if is_exhausted else _more_questions(drop, rules)
    if drop.low is None:
        why = drop.reason or f"{drop.n} query is too few for an interval"
        reason = f"nothing is shown: {why}"
    elif is_too_much:
        chance = f"may be chance (p = {four_places(p or 1.0)}, below {level:g} is needed)"
        reason = f"dropped by {drop.drop:.4f}, which {chance}; {allowed}"
    else:
        reason = f"a drop of {-drop.low:.4f} is not ruled out; {allowed}"
    if more is not None and drop.low is not None:
        reason += f"; {more_questions_text(more, if_half)}"
    return Check(*cell, CANNOT_TELL, reason, drop, p, more, if_half, causes)


def _more_questions(drop: Drop, rules: Rules) -> tuple[int | None, int | None]:
    """Return how many more questions tell with power 0.8, if the mean drop stays as it is.

    And how many tell in all if it is half of that. None: none of so many would.
    """
    units = _units(drop, drop.drop, rules)
    if units is None or (units / drop.n_units - 1) * drop.n >= MAX_QUESTIONS:
        return None, None
    half = _units(drop, drop.drop / 2, rules)
    if_half = None if half is None else rounded(half / drop.n_units * drop.n)
    return rounded((units / drop.n_units - 1) * drop.n), if_half


def _units(drop: Drop, fall: float, rules: Rules) -> float | None:
    """Return how many independent units tell where the mean falls by so much.

    Below the allowed drop so many that rule more than that out; above it so many that show both
    that there is a drop and that it is more than allowed; of too few units that all fall, chance is
    never ruled out.
    """
    beyond = fall - rules.max_drop
    if not drop.error or drop.n_units < MIN_UNITS or abs(beyond) <= SAME:
        return None
    bounds = [(-beyond, rules.alpha / 2)]
    if beyond > 0:
        bounds = [(fall, look_level(rules.alpha)), (beyond, 0.5)]
    units = max(units_needed(drop.error, drop.n_units, margin, level) for margin, level in bounds)
    return max(units, fewest_falls(rules.alpha)) if beyond > 0 else units


def broken(pair: EvaluationPair, check: Check) -> Check | None:
    """Return a failing check of a retriever that returns nothing where it did; None: it is not.

    :data:`MIN_SILENT` questions or more must have had hits in the older evaluation and none now.
    """
    cutoff = pair.metric.cutoff or 0
    # A sample of labels has no table of facts about queries: it knows its questions itself.
    ids = pair.queries if is_sampled(pair.metric) else pair.counting["query_id"].to_pylist()
    answered = [
        set(ids) & set(one.table(keys[cutoff])["query_id"].to_pylist())
        for one in (pair.old, pair.new)
        if cutoff in (keys := one.run_keys(check.retriever))
    ]
    silent = len(answered[0] - answered[1]) if len(answered) == 2 else 0
    if silent < MIN_SILENT:
        return None
    reason = f"broken: it returns nothing for {silent} questions that had hits"
    return replace(check, answer=FAIL, reason=reason, more_questions=None, questions_if_half=None)


def row_of_check(check: Check) -> dict[str, Any]:
    """Return a check as it is kept: without texts of questions, which only their files may hold."""
    row = asdict(check)
    for question in row["causes"]["lost"] if row["causes"] is not None else ():
        del question["text"]
    return row


def check_of_row(row: Mapping[str, Any], texts: Mapping[str, str]) -> Check:
    """Return a check that was kept."""
    drop, causes = row["drop"], row["causes"]
    if causes is not None:
        lost = (LostQuestion(**one, text=texts.get(one["query_id"], "")) for one in causes["lost"])
        unjudged = (Newcomer(**one) for one in causes["newcomers"])
        causes = Causes(**{**causes, "lost": tuple(lost), "newcomers": tuple(unjudged)})
    return Check(**{**row, "drop": None if drop is None else Drop(**drop), "causes": causes})
