"""Floors: whether a metric is what it has to be, whatever it was before.

A floor is a limit that people set, so nothing is tested: the value, or the end of its interval that
is named, lies on the right side of it or not. Who has no value is below every floor. A floor that
nothing can be said of, because its metric was not computed, nothing calibrates it, or no question
is in its slice, is an error and never a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from rag_assets.analysis.evaluation_pairs import EvaluationPair, Mean, MetricSource, is_answerer
from rag_assets.analysis.metric_sources import chosen_source
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.analysis.slices import DOCUMENT, members_by
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.experiment.config import FloorConfig
from rag_assets.sheets.sheet import TEXT, Column, Sheet
from rag_assets.statistics.units import SAME


class FloorCheck(NamedTuple):
    """One floor of one retriever, or answerer.

    Attributes:
        floor: in words.
        name: whose; of an answerer with its cut-off, as ``plain@5``.
        reason: why it fails; None: it passes.
        value: the mean; None: there is none.
        low: lower bound of its interval; None: not known.
        high: upper bound.
        n: questions.
    """

    floor: str
    name: str
    reason: str | None
    value: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def problem(self) -> str | None:
        """In a line, whose floor is not reached, and why; None: it is."""
        return f"{self.name}: {self.floor}: {self.reason}" if self.reason else None

    @property
    def row(self) -> Row:
        """It as a mapping."""
        return {"answer": "fail" if self.reason else "pass", **self._asdict()}


def floor_checks(
    result: EvaluationResult, floors: Sequence[FloorConfig], names: Collection[str] = ()
) -> tuple[list[FloorCheck], list[str]]:
    """Return each floor of each retriever, or answerer, that it is for, and what cannot be read.

    A floor that cannot be read is a sentence, so that it does not hide another one that fails.

    Args:
        result: the evaluation; its split counts.
        floors: what is asked for.
        names: whose floors to check, of those that name nobody; all when empty.
    """
    checks: list[FloorCheck] = []
    unreadable = []
    for floor in floors:
        try:
            source = chosen_source(result, floor.metric)
            means = source.means(_questions(result, source, floor))
            wanted = floor.of or [n for n in names if is_answerer(n) == source.is_of_answers]
            for name in wanted:
                if name not in means:
                    raise UsageError(f"nothing is known of {allowed_names(name, means)}")
            chosen = {name: means[name] for name in wanted or means}
            if all(mean.value is None for mean in chosen.values()):
                reasons = dict.fromkeys(mean.reason for mean in chosen.values())
                raise UsageError("; ".join(reasons) or "nobody has a value")
        except (UsageError, NotEvaluated) as error:
            unreadable.append(f"the floor {floor} cannot be read: {error}")
            continue
        for name, mean in chosen.items():
            checks.append(FloorCheck(str(floor), name, _failure(floor, mean), *mean[:-1]))
    return checks, unreadable


def _questions(
    result: EvaluationResult, source: MetricSource, floor: FloorConfig
) -> EvaluationPair:
    """Return the evaluation, beside itself, on the questions of the split that a floor is about."""
    source.check(result)
    source.split(result)
    queries = frozenset(result.queries["query_id"].to_pylist())
    for criterion, value in floor.values.items():
        if criterion.startswith(DOCUMENT):
            result.check_labels()
        members = members_by(criterion, result.table_of)
        if value not in members:
            raise UsageError(f"no question has the {criterion} {allowed_names(value, members)}")
        queries &= members[value]
    if not queries:
        raise UsageError("no question has all of this")
    return EvaluationPair(result, result, source, queries)


def _failure(floor: FloorConfig, mean: Mean) -> str | None:
    """Return why a mean does not reach its floor; None: it does."""
    if mean.value is None:
        return mean.reason
    ends = {"value": mean.value, "lower": mean.low, "upper": mean.high}
    if (number := ends[floor.bound]) is None:
        return f"has no interval, of {mean.n} questions"
    least, most = floor.at_least, floor.at_most
    if least is not None and number < least - SAME:
        side = f"below {least:g}"
    elif most is not None and number > most + SAME:
        side = f"above {most:g}"
    else:
        return None
    bound = "" if floor.bound == "value" else f", the {floor.bound} bound,"
    return f"{number:.4f}{bound} is {side}"


def floors_sheet(checks: Sequence[FloorCheck], title: str, notes: Sequence[str] = ()) -> Sheet:
    """Return a row a check, and below them what fails, after ``notes``."""
    columns = (
        Column("answer", "result", TEXT, is_whole=True),
        Column("floor", "floor", TEXT),
        Column("name", "of", TEXT),
        Column("value", "value", bounds=("low", "high"), interval="interval", is_required=True),
        Column("n", "questions", "d"),
    )
    failed = [f"failed: {check.problem}" for check in checks if check.problem]
    return Sheet(title, columns, [check.row for check in checks], notes=[*notes, *failed])
