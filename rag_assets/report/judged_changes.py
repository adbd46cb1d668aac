"""Two evaluations by what a judge says of their answers: what changed of it, system or judge.

What a judge says of equal answers is about the judge. So the gate compares the answers that
differ alone, calibrated with labels of people, and of a change of verdicts it is said how much
came from answers, and how much from another judge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

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
from rag_assets.pipeline.history import recorded_judge
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.judged import sample_of
from rag_assets.report.metric_choice import judge_named
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import SIGNED, TEXT, Column, Sheet
from rag_assets.schemas import ANSWER_VERDICTS

Row = dict[str, Any]


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


def judged_change(pair: EvaluationPair, old: str, new: str, level: float) -> JudgedChange | None:
    """Compare answerer ``new`` of the newer evaluation with ``old`` of the older one.

    The labels are those of the newer evaluation, for the answers of both.

    Returns:
        None where no question can be judged.
    """
    sample = _sample(pair)
    if sample is None:
        return None
    judge, labels = judge_named(pair.metric) or "", pair.new.answer_labels
    before = pair.old.judged_answers(judge, labels)[old]
    after = pair.new.judged_answers(judge, labels)[new]
    return change_of(before, after, sample, level, (old, new))


def change_of(
    before: pa.Table,
    after: pa.Table,
    sample: Sample,
    level: float,
    names: tuple[str, str] = ("old", "new"),
) -> JudgedChange:
    """Compare two tables of :data:`rag_assets.judges.calibration.JUDGED`, see above."""
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
    sample = _sample(pair)
    judge = judge_named(pair.metric) or ""
    if sample is None:
        return []
    prints = [recorded_judge(one.root, one.evaluation, judge) for one in (pair.old, pair.new)]
    labels = pair.new.answer_labels
    before, after = (one.judged_answers(judge, labels) for one in (pair.old, pair.new))
    level = pair.resampling.confidence
    rows = []
    for name in after:
        if name not in before or (answerers and name not in answerers):
            continue
        rejudged = _rejudged(pair.new, judge, before[name])
        parts = parts_of(
            before[name], after[name], rejudged, sample, same_judge=prints[0] == prints[1]
        )
        calibrated = change_of(before[name], after[name], sample, level).row
        rows.append(
            {
                **{
                    "answerer": name,
                    "judge": judge,
                    "old_judge": prints[0],
                    "new_judge": prints[1],
                },
                **parts,
                **{one: calibrated[one] for one in ("calibrated", "low", "high", "reason")},
            }
        )
    return rows


def _rejudged(new: EvaluationResult, judge: str, before: pa.Table) -> pa.Table:
    """Return what the judge of the newer evaluation says of answers of the older one."""
    key = answer_verdicts_key(judge)
    known = any(entry.key == key for entry in new.evaluation.entries_of(key.asset))
    return judged_answers(
        before, new.table(key) if known else ANSWER_VERDICTS.empty(), new.answer_labels
    )


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
    known = ~np.isnan(middle)
    by_judge = np.where(known, middle - old, 0.0)
    by_answers = np.where(known, new - middle, 0.0)
    parts = {
        "change": change,
        "by_answers": by_answers,
        "by_judge": by_judge,
        "by_both": np.where(known, 0.0, change),
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
    columns = (
        Column("answerer", "answerer", TEXT),
        Column("judge", "judge", TEXT),
        Column("change", "verdicts", SIGNED),
        Column("by_answers", "by answers", SIGNED),
        Column("by_judge", "by the judge", SIGNED),
        Column("by_both", "by both", SIGNED),
        Column(
            "calibrated",
            "calibrated",
            SIGNED,
            bounds=("low", "high"),
            interval="interval",
            is_required=True,
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
