"""Two evaluations by what a judge says of their answers: what changed of it, system or judge.

What a judge says of equal answers is about the judge. So the gate compares the answers that
differ alone, calibrated with labels of people, and of a change of verdicts it is said how much
came from answers, and how much from another judge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.answers.stage import answers_key
from rag_assets.errors import NotEstimable, NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric
from rag_assets.judges.calibration import (
    JUDGED_CORRECT,
    N_UNITS,
    VERDICT,
    Sample,
    difference_row,
    judged_answers,
    mean_row,
    same_answers,
)
from rag_assets.judges.verdicts_stage import answer_verdicts_key
from rag_assets.pipeline.history import History, recorded_judge
from rag_assets.report.evaluation_pairs import (
    Cells,
    Couple,
    Drop,
    Drops,
    EstimatedSource,
    EvaluationPair,
    detectable_drop,
    drops_one_by_one,
)
from rag_assets.report.judged import (
    calibrated_row,
    differences_sheet,
    how,
    sample_of,
    stored_rows,
)
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sheet import SIGNED, TEXT, Column, Sheet
from rag_assets.schemas import ANSWER_VERDICTS


class JudgedAnswers(EstimatedSource):
    """What a judge says of answers; it counts only as labels of people calibrate it."""

    subject = "answerer"
    fails_without_value = False  # what nothing calibrates yet is not worse for that

    @property
    def judge(self) -> str:
        """The judge that the metric names; empty: it names none."""
        return self.metric.measure.partition(":")[2]

    def of_judge(self, judges: Sequence[str], experiment: str) -> JudgedAnswers:
        """Return the metric with its judge: the one that is named, or the only one.

        Raises:
            NotEvaluated: there is no judge.
            UsageError: there is no such judge, or several and none is named.
        """
        if not judges:
            problem = "no judge judged the answers of the last evaluation of"
            raise NotEvaluated(f"{problem} {experiment}")
        if self.judge and self.judge not in judges:
            raise UsageError(f"unknown judge {allowed_names(self.judge, judges)}")
        if not self.judge:
            _check_only_one(judges)
        return JudgedAnswers(Metric(f"{JUDGED_CORRECT}:{self.judge or judges[0]}"))

    def cells(self, result: EvaluationResult) -> Cells:
        """Return the answerers, each with its verdicts."""
        tables = self.judged(result, result.answer_labels)
        return {
            name: table.append_column(self.metric.column, table[VERDICT])
            for name, table in tables.items()
        }

    def judged(self, result: EvaluationResult, labels: pa.Table) -> dict[str, pa.Table]:
        """Return answerer -> table of :data:`rag_assets.judges.calibration.JUDGED`.

        Args:
            result: the evaluation; without verdicts of the judge these are missing.
            labels: table of :data:`rag_assets.schemas.ANSWER_LABELS`, of any evaluation.
        """
        verdicts = self._verdicts(result)
        return {
            name: judged_answers(result.table(answers_key(name)), verdicts, labels)
            for name in result.answer_metrics
        }

    def _verdicts(self, result: EvaluationResult) -> pa.Table:
        key = answer_verdicts_key(self.judge)
        return result.table(key) if result.has(key) else ANSWER_VERDICTS.empty()

    def check_single(self, remedy: str) -> None:
        """Refuse it: nothing calibrates a single verdict."""
        problem = "counts only after people's labels calibrate it"
        raise UsageError(f"{self.metric} {problem}; it is {remedy}")

    def measured(self, result: EvaluationResult, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the answers, their metrics, and the verdicts of all judges."""
        values = frozenset([*names, *result.judges])
        return dict.fromkeys(("answers", "answer_metrics", "answer_verdicts"), values)

    def history(self, history: History, since: str) -> list[Row]:
        """Return the calibrated means of one judge; of the only one where none is named."""
        rows = history.judged_metric(self.judge or None, JUDGED_CORRECT, since)
        _check_only_one(list(dict.fromkeys(str(row["judge"]) for row in rows)))
        return [{**row, "retriever": row["name"], "n_queries": row["n"]} for row in rows]

    def drops(self, pair: EvaluationPair, chosen: Sequence[Couple], alpha: float) -> Drops:
        """Compare calibrated means, with the labels of the newer evaluation for both."""
        sample, labels = _sample(pair), pair.new.answer_labels
        before, after = (self.judged(one, labels) for one in (pair.old, pair.new))

        def drop_of(old: str, new: str) -> Drop | None:
            if sample is None:
                return None
            change = change_of(before[old], after[new], sample, 1 - alpha, (old, new))
            if change.row["calibrated"] is None:
                raise NotEstimable(f"{self.metric} is not calibrated: {change.row['reason']}")
            return change.drop(alpha)

        return drops_one_by_one(chosen, drop_of)

    def change_notes(self, pair: EvaluationPair, names: Collection[str]) -> Iterator[str]:
        """Yield how verdicts changed, and by whom."""
        yield from change_lines(judged_change_rows(pair, names))

    def differences(
        self, result: EvaluationResult, split: str | None, names: Sequence[str] = ()
    ) -> list[Row]:
        """Return rows of :data:`rag_assets.schemas.CALIBRATED_DIFFERENCES` with ``by``, the judge.

        Raises:
            NotEvaluated: the evaluation has none, or none of these names.
        """
        split = result.chosen_split(split)
        if names:
            rows = self._difference(result, split, names)
        else:
            stored = stored_rows(result, "calibrated_differences")
            rows = [row for row in stored if (row["by"], row["split"]) == (self.judge, split)]
        if not rows:
            problem = f"the last evaluation of {result.evaluation.experiment}"
            raise NotEvaluated(
                f"{problem} has no calibrated {self.metric} to compare; {how(result)}"
            )
        return rows

    def _difference(self, result: EvaluationResult, split: str, names: Sequence[str]) -> list[Row]:
        cells, sample = self.cells(result), sample_of(result, split)
        a, b = names
        if sample is None or a not in cells or b not in cells:
            return []
        levels = [
            one.config["confidence"] for _, one in result.manifests_of("calibrated_differences")
        ]
        level = levels[0] if levels else 0.95
        row = difference_row((a, b), JUDGED_CORRECT, (cells[a], cells[b]), sample, level)
        return [{"by": self.judge, **calibrated_row(row)}]

    def differences_sheet(self, rows: Sequence[Row], title: str) -> Sheet:
        """Return these rows as a table, and what they come to."""
        return differences_sheet(rows, title)


def _check_only_one(judges: Sequence[str]) -> None:
    if len(judges) > 1:
        names = ", ".join(f"{JUDGED_CORRECT}:{name}" for name in judges)
        raise UsageError(f"{JUDGED_CORRECT} needs its judge: {names}")


class JudgedChange(NamedTuple):
    """How the calibrated mean of one answerer changed.

    Attributes:
        row: of :data:`rag_assets.schemas.CALIBRATED_DIFFERENCES`, new - old.
        mean: the calibrated mean now; None: there is none.
        p: one-sided; how often chance alone gives so large a drop; 1 without an interval.
        error: standard error of the change; None without an interval.
        n_units: independent units that people labelled.
    """

    row: Row
    mean: float | None
    p: float
    error: float | None
    n_units: int

    def drop(self, alpha: float) -> Drop:
        """Return it as the drop of a gate."""
        row, change = self.row, self.row["calibrated"]
        is_tested = row["low"] is not None and not row["low"] == row["high"] == 0
        return Drop(
            n=row["n"],
            old=None if self.mean is None else self.mean - change,
            new=self.mean,
            change=change,
            low=row["low"],
            high=row["high"],
            p=self.p if is_tested else None,
            detectable=detectable_drop(self.error, self.n_units, alpha),
            error=self.error,
            n_units=self.n_units,
            reason=row["reason"],
        )


def change_of(
    before: pa.Table,
    after: pa.Table,
    sample: Sample,
    level: float,
    names: tuple[str, str] = ("old", "new"),
) -> JudgedChange:
    """Compare two tables of :data:`rag_assets.judges.calibration.JUDGED`."""
    row = difference_row(names, JUDGED_CORRECT, (before, after), sample, level)
    mean = mean_row(names[1], JUDGED_CORRECT, after, sample, level)["calibrated"]
    p, error = drop_test(row)
    return JudgedChange(row, mean, p, error, int(row[N_UNITS]))


def drop_test(row: Row) -> tuple[float, float | None]:
    """Return the one-sided p of a drop and its standard error, by the t of the interval."""
    from scipy.special import stdtr, stdtrit

    if row["low"] is None or row["high"] == row["low"]:
        return 1.0, None
    freedom = row[N_UNITS] - 1
    reach = float(stdtrit(freedom, (1 + row["confidence"]) / 2))
    error = (row["high"] - row["low"]) / 2 / reach
    return float(stdtr(freedom, row["calibrated"] / error)), error


def _sample(pair: EvaluationPair) -> Sample | None:
    """Return the questions that both evaluations have, of those that can be judged."""
    sample = sample_of(pair.new, pair.split)
    if sample is None:
        return None
    shared = np.array([one in pair.queries for one in sample.counted.query_ids], dtype=np.bool_)
    return sample.only(shared) if shared.any() else None


def judged_change_rows(pair: EvaluationPair, answerers: Collection[str] = ()) -> list[Row]:
    """Return a row for each answerer of both evaluations: who changed what is said of it.

    Args:
        pair: two evaluations, and ``judged_correct`` with its judge.
        answerers: only these; all when empty.

    Returns:
        ``answerer``, ``judge``; ``old_judge`` and ``new_judge`` (fingerprints; None: it was not
        there), ``n`` questions with a verdict in both, ``n_answers_changed``,
        ``n_verdicts_changed`` (on equal answers), ``change`` of the mean verdict and its parts
        ``by_answers``, ``by_judge`` and ``by_both`` (the answer changed, and so did the judge, and
        nothing tells how the one would judge the other's); and ``calibrated``, ``low``, ``high``
        and ``reason`` of the calibrated change, which no change of the judge alone can move.
    """
    sample, source = _sample(pair), pair.source
    if sample is None or not isinstance(source, JudgedAnswers):
        return []
    old, new = (
        recorded_judge(one.root, one.evaluation, source.judge) for one in (pair.old, pair.new)
    )
    labels = pair.new.answer_labels
    before, after = (source.judged(one, labels) for one in (pair.old, pair.new))
    verdicts, level = source._verdicts(pair.new), pair.resampling.confidence
    rows = []
    for name in after:
        if name not in before or (answerers and name not in answerers):
            continue
        rejudged = judged_answers(before[name], verdicts, labels)
        parts = parts_of(before[name], after[name], rejudged, sample, same_judge=old == new)
        calibrated = change_of(before[name], after[name], sample, level).row
        row: Row = {"answerer": name, "judge": source.judge, "old_judge": old, "new_judge": new}
        row |= parts | {one: calibrated[one] for one in ("calibrated", "low", "high", "reason")}
        rows.append(row)
    return rows


def parts_of(
    before: pa.Table, after: pa.Table, rejudged: pa.Table, sample: Sample, *, same_judge: bool
) -> Row:
    """Split the change of a mean of verdicts into what answers and what the judge changed.

    Args:
        before: table of :data:`rag_assets.judges.calibration.JUDGED`, old answers and old verdicts.
        after: new answers and new verdicts.
        rejudged: old answers and new verdicts, where there are any.
        sample: the questions.
        same_judge: whether the judge is the same: then no verdict on an equal answer differs.
    """
    old, new, crossed = (sample.counted.values(t, VERDICT) for t in (before, after, rejudged))
    same = same_answers(before, after, sample)
    there = ~(np.isnan(old) | np.isnan(new))
    weights = np.where(there, sample.counted.weights, 0.0)
    total = weights.sum()
    change = np.where(there, new - old, 0.0)
    middle = old if same_judge else np.where(same, new, crossed)
    has_middle = ~np.isnan(middle)
    parts: dict[str, Any] = {
        "change": change,
        "by_answers": np.where(has_middle, new - middle, 0.0),
        "by_judge": np.where(has_middle, middle - old, 0.0),
        "by_both": np.where(has_middle, 0.0, change),
    }
    return {
        "n": int(there.sum()),
        "n_answers_changed": int((there & ~same).sum()),
        "n_verdicts_changed": int((there & same & (change != 0)).sum()),
        **{
            name: float((np.where(there, part, 0.0) * weights).sum() / total) if total else 0.0
            for name, part in parts.items()
        },
    }


def change_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence or two an answerer: how its verdicts changed, and by whom."""
    for row in rows:
        name, judge = row["answerer"], row["judge"]
        is_same = row["old_judge"] == row["new_judge"]
        if is_same and not (row["n_answers_changed"] or row["n_verdicts_changed"]):
            continue
        if None in (row["old_judge"], row["new_judge"]):
            which = "older" if row["old_judge"] is None else "newer"
            yield f"{name}: the {which} evaluation has no verdicts of {judge}"
            continue
        both = f"; by both at once {row['by_both']:+.4f}" if row["by_both"] else ""
        other = "" if is_same else f"; {judge} is another judge now"
        yield (
            f"{name}: verdicts of {judge} {row['change']:+.4f}: "
            f"{row['by_answers']:+.4f} by answers ({row['n_answers_changed']} changed), "
            f"{row['by_judge']:+.4f} by the judge "
            f"({row['n_verdicts_changed']} verdicts on equal answers changed){both}{other}"
        )


def judged_changes_sheet(rows: Sequence[Row]) -> Sheet:
    """Return how verdicts changed, by answers or judge, and what is left calibrated."""
    bounds = ("low", "high")
    columns = (
        Column("answerer", "answerer", TEXT),
        Column("judge", "judge", TEXT),
        Column("change", "verdicts", SIGNED),
        Column("by_answers", "by answers", SIGNED),
        Column("by_judge", "by the judge", SIGNED),
        Column("by_both", "by both", SIGNED),
        Column(
            "calibrated", "calibrated", SIGNED, bounds=bounds, interval="interval", is_required=True
        ),
    )
    notes = [*change_lines(rows)]
    notes += [
        f"{row['answerer']}: no interval of the change: {row['reason']}"
        for row in rows
        if row["reason"] is not None
    ]
    judges = ", ".join(dict.fromkeys(row["judge"] for row in rows))
    return Sheet(f"{JUDGED_CORRECT} by {judges}", columns, rows, notes=notes)
