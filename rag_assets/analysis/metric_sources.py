"""Which metric is meant, and how metrics of single questions fall from one evaluation to the next.

An answerer at its cut-off is one name, ``plain@5``, or ``perfect@-`` where it has none; retrievers
have no ``@`` in theirs. What a judge says of answers is the metric ``judged_correct``, or
``judged_correct:strict`` where there are several judges. What a sample of labels estimates of a
retriever is the metric with ``sampled_`` before it, ``sampled_dcg@10``.

A drop is the mean of old - new over the queries that have a value in both. H0 is that there is
none. p and the interval are those of :mod:`rag_assets.statistics.paired_differences`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from rag_assets.analysis.evaluation_pairs import (
    NO_VALUES,
    Cells,
    Drop,
    Drops,
    EstimatedSource,
    EvaluationPair,
    Mean,
    MetricSource,
    is_answerer,
)
from rag_assets.analysis.judged import (
    calibrated_columns,
    calibrated_row,
    difference_text,
    how,
    sample_of,
    stored_rows,
)
from rag_assets.analysis.result import SAMPLED, EvaluationResult, Row
from rag_assets.analysis.sampled import SampledLabels
from rag_assets.answers.answerers import AnswerCell
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.stage import answers_key
from rag_assets.answers.summary_stage import answer_summary, comparable
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.judges.base import CORRECTNESS
from rag_assets.judges.calibration import (
    JUDGED_CORRECT,
    N_UNITS,
    VERDICT,
    Sample,
    difference_row,
    judged_answers,
    labels_with_verdicts,
    mean_row,
)
from rag_assets.judges.verdicts_stage import verdicts_key
from rag_assets.labels.pool import estimable_metric
from rag_assets.pipeline.history import COSTS, History, recorded_judge
from rag_assets.pipeline.written_answers import WRITTEN
from rag_assets.schemas import ANSWER_VERDICTS
from rag_assets.sheets.sheet import SIGNED, Column
from rag_assets.statistics.comparisons import difference, holm
from rag_assets.statistics.intervals import intervals, largest_value, number_or_none
from rag_assets.statistics.paired_differences import PairedDifferences, look_level, look_p_values
from rag_assets.statistics.paired_tests import detectable, spread
from rag_assets.statistics.units import SAME, Floats, Units, counted_by_split, weighted_mean

ANSWER_HEADLINES = ("answer_f1", "evidence_cited", "grounded", "abstained")
"""The first of them that has a value is what answerers are compared by where none is named."""


class Retrieval(MetricSource):
    """A metric of retrievers that labels of evidence decide."""

    measured = ("_runs", "metrics")
    needs_labels = True

    def cells(self, result: EvaluationResult) -> Cells:
        """Return the retrievers at the metric's cut-off."""
        return result.query_metrics(self.metric.cutoff or 0)

    def history(self, history: History, since: str) -> list[Row]:
        """Return the means at the cut-off."""
        return history.metric(self.metric.column, self.metric.cutoff or 0, since)

    def drops(self, pair: EvaluationPair, chosen: Sequence[str], alpha: float) -> Drops:
        """Test all retrievers of a look together."""
        column = self.metric.column
        cells = [(pair.old_cells[name], pair.new_cells[name]) for name in chosen]
        counted = next(counted_by_split(pair.counting, [t for cell in cells for t in cell]), None)
        if counted is None:
            return [(NO_VALUES, None) for _ in chosen]
        before, after = (
            np.column_stack([counted.values(cell[side], column) for cell in cells])
            for side in (0, 1)
        )
        paired = PairedDifferences(counted, after - before)
        moved = np.flatnonzero((np.abs(np.nan_to_num(paired.values)) > SAME).any(axis=0))
        adjusted: list[float | None] = [None] * len(chosen)
        p_values = list(adjusted)
        if moved.size:
            changes = PairedDifferences(counted, paired.values[:, moved])
            corrected = look_p_values(changes, pair.resampling, alpha)
            alone = changes.p_values(pair.resampling, "less")
            for number, p, both in zip(moved, alone, corrected, strict=True):
                p_values[number], adjusted[number] = p, both
        drops = [
            _drop(paired, number, before[:, number], after[:, number], p, alpha)
            for number, p in enumerate(p_values)
        ]
        return list(zip(drops, adjusted, strict=True))

    def means(self, pair: EvaluationPair) -> dict[str, Mean]:
        """Return the means over answerable queries, with the intervals of the leaderboard."""
        column, means = self.metric.column, {}
        for name, table in pair.new_cells.items():
            cell = {0: table.select(["query_id", "n_relevant", column])}
            rows = intervals(cell, pair.counting, pair.confidence).to_pylist()
            means[name] = _mean(rows[0]) if rows else Mean(None)
        return means


def _mean(row: Row) -> Mean:
    return Mean(row["mean"], row["low"], row["high"], row["n"])


def _drop(
    paired: PairedDifferences,
    number: int,
    before: Floats,
    after: Floats,
    p: float | None,
    alpha: float,
) -> Drop | str:
    both = ~np.isnan(paired.values[:, number])
    if not both.any():
        return NO_VALUES
    n, change = int(both.sum()), Units(*(part[:, None] for part in paired.units.column(number)))
    old = difference(before[both], paired.counted.weights[both]) or 0.0
    if p is None:
        return Drop(n, old, old, 0.0, 0.0, 0.0, None, None)
    rise = weighted_mean(*change.column(0)) or 0.0
    low, high = paired.intervals(1 - alpha, largest_value(before, after))
    deviation = spread(*change.column(0))
    wider = float(paired.inflations(1 - alpha)[number]) ** 0.5
    error = deviation.error * wider if deviation is not None else None
    ends = number_or_none(low[number]), number_or_none(high[number])
    smallest = detectable(error, change.sums.shape[0], look_level(alpha))
    return Drop(n, old, old + rise, old + rise - old, *ends, p, smallest)


class Answers(Retrieval):
    """A metric of the words of answers."""

    subject = "answerer"
    measured = ("answers", "answer_metrics")
    needs_labels = False

    def __init__(self, metric: Metric) -> None:
        super().__init__(metric)
        if metric.measure in WRITTEN:
            self.only_whole = "exists only for all answers together; see `leaderboard --answers`"
        elif not METRICS[metric.measure].is_mean:
            self.only_whole = "is not a mean over questions, so it cannot compare single ones"

    def cells(self, result: EvaluationResult) -> Cells:
        """Return the answerers; of those that read the relevant texts, the answerable questions."""
        golds = result.gold_answerers
        return {
            key: comparable(table, reads_gold=key.rpartition("@")[0] in golds)
            for key, table in result.answer_metrics.items()
        }

    def means(self, pair: EvaluationPair) -> dict[str, Mean]:
        """Return the means over all questions, as the leaderboard of answers has them."""
        column, tables = self.metric.column, pair.new.answer_metrics
        cells = {AnswerCell(name, None): one for name, one in tables.items()}
        cells = {cell: one for cell, one in cells.items() if column in one.column_names}
        summary = answer_summary(cells, pair.counting, [column], pair.confidence).to_pylist()
        rows = {row["answerer"]: row for row in summary if row["questions"] == "all"}
        return {cell.name: _mean(rows[cell.name]) for cell in cells if cell.name in rows}

    def history(self, history: History, since: str) -> list[Row]:
        """Return the means of answerers, who stand where retrievers do."""
        return [
            {**row, "retriever": row["answerer"], "n_queries": row["n_questions"]}
            for row in history.answer_metric(self.metric.column, since)
        ]


class JudgedAnswers(EstimatedSource):
    """What a judge says of answers; it counts only as labels of people calibrate it."""

    subject = "answerer"
    measured = ("answers", "answer_metrics", "answer_verdicts")
    only_whole = (
        "exists only over all questions, calibrated with labels from people; "
        "see `rag-assets compare`, `gate` and `history`"
    )

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
        key = verdicts_key(CORRECTNESS, self.judge)
        return result.table(key) if result.has(key) else ANSWER_VERDICTS.empty()

    def history(self, history: History, since: str) -> list[Row]:
        """Return the calibrated means of one judge; of the only one where none is named."""
        rows = history.judged_metric(self.judge or None, JUDGED_CORRECT, since)
        _check_only_one(list(dict.fromkeys(str(row["judge"]) for row in rows)))
        return [{**row, "retriever": row["name"], "n_queries": row["n"]} for row in rows]

    def drops(self, pair: EvaluationPair, chosen: Sequence[str], alpha: float) -> Drops:
        """Compare calibrated means, with the labels of the newer evaluation for both.

        Answers that are equal differ by 0, so a judge that was exchanged alone is no drop.
        """
        sample, labels = _sample(pair), pair.new.answer_labels
        if sample is None:
            return [(NO_VALUES, None) for _ in chosen]
        before, after = (self.judged(result, labels) for result in (pair.old, pair.new))
        drops: list[Drop | str] = []
        for name in chosen:
            both = before[name], after[name]
            row = difference_row((name, name), JUDGED_CORRECT, both, sample, 1 - alpha)
            if row["calibrated"] is None:
                drops.append(f"{self.metric} is not calibrated: {row['reason']}")
                continue
            mean = mean_row(name, JUDGED_CORRECT, after[name], sample, 1 - alpha)["calibrated"]
            drops.append(_judged_drop(row, mean, alpha))
        adjusted = holm([None if isinstance(drop, str) else drop.p for drop in drops])
        return list(zip(drops, adjusted, strict=True))

    def means(self, pair: EvaluationPair) -> dict[str, Mean]:
        """Return the calibrated means; what a judge says alone is none."""
        sample, labels = _sample(pair), pair.new.answer_labels
        if sample is None:
            return {}
        elsewhere = labels_with_verdicts(labels, self._verdicts(pair.new))
        means = {}
        for name, table in self.judged(pair.new, labels).items():
            of = name, JUDGED_CORRECT, table, sample, pair.confidence, elsewhere
            row = mean_row(*of)
            reason = f"it is not calibrated: {row['reason']}"
            means[name] = Mean(row["calibrated"], row["low"], row["high"], row["n"], reason)
        return means

    def change_notes(self, pair: EvaluationPair) -> Iterator[str]:
        """Yield that the judge is another one."""
        old, new = (recorded_judge(result, self.judge) for result in (pair.old, pair.new))
        if None not in (old, new) and old != new:
            other = f"{self.judge} is another judge now"
            yield f"{other}; old is new less the change of the answers, not what history shows"

    def differences(self, result: EvaluationResult, names: Sequence[str] = ()) -> list[Row]:
        """Return rows of :data:`rag_assets.schemas.CALIBRATED_DIFFERENCES` with ``by``, the judge.

        Raises:
            NotEvaluated: the evaluation has none, or none of these names.
        """
        if names:
            rows = self._difference(result, names)
        else:
            of, stored = (self.judge, result.split), stored_rows(result, "calibrated_differences")
            rows = [row for row in stored if (row["by"], row["split"]) == of]
        if not rows:
            raise result.lacks(f"has no calibrated {self.metric} to compare; {how(result)}")
        return rows

    def _difference(self, result: EvaluationResult, names: Sequence[str]) -> list[Row]:
        cells, sample = self.cells(result), sample_of(result, result.split)
        a, b = names
        if sample is None or a not in cells or b not in cells:
            return []
        stored = result.manifests_of("calibrated_differences")
        level = next((manifest.config["confidence"] for _, manifest in stored), 0.95)
        row = difference_row((a, b), JUDGED_CORRECT, (cells[a], cells[b]), sample, level)
        return [{"by": self.judge, **calibrated_row(row)}]

    def difference_columns(self, rows: Sequence[Row]) -> Iterable[Column]:
        """Return what the judge says, calibrated, beside the labels alone."""
        return calibrated_columns(rows, SIGNED)

    def difference_text(self, row: Row) -> str:
        """Return what one of them comes to, in one sentence that claims no more."""
        return difference_text(row)


def _check_only_one(judges: Sequence[str]) -> None:
    if len(judges) > 1:
        names = ", ".join(f"{JUDGED_CORRECT}:{name}" for name in judges)
        raise UsageError(f"{JUDGED_CORRECT} needs its judge: {names}")


def _judged_drop(row: Row, mean: float | None, alpha: float) -> Drop:
    """Return a calibrated difference, new - old, as the drop of a gate; ``mean`` is that of now."""
    change, (p, error) = row["calibrated"], drop_test(row)
    is_tested = row["low"] is not None and not row["low"] == row["high"] == 0
    return Drop(
        n=row["n"],
        old=None if mean is None else mean - change,
        new=mean,
        change=change,
        low=row["low"],
        high=row["high"],
        p=p if is_tested else None,
        detectable=detectable(error, int(row[N_UNITS]), look_level(alpha)),
        reason=row["reason"],
    )


def drop_test(row: Row) -> tuple[float, float | None]:
    """Return the one-sided p of a drop and its standard error, by the t of the interval."""
    from scipy.special import stdtr, stdtrit

    if row["low"] is None or row["high"] == row["low"]:
        return 1.0, None
    freedom = row[N_UNITS] - 1
    error = (row["high"] - row["low"]) / 2 / float(stdtrit(freedom, (1 + row["confidence"]) / 2))
    return float(stdtr(freedom, row["calibrated"] / error)), error


def _sample(pair: EvaluationPair) -> Sample | None:
    """Return the questions that both evaluations have, of those that can be judged."""
    if (sample := sample_of(pair.new, pair.split)) is None:
        return None
    shared = np.array([query in pair.queries for query in sample.counted.query_ids], dtype=np.bool_)
    return sample.only(shared) if shared.any() else None


def named_source(name: str | None, primary: Metric) -> MetricSource:
    """Return the metric of a name, the primary one for None; its cut-off where it names none.

    Raises:
        UsageError: there is no such metric.
        NotEstimable: a sample of labels does not estimate it.
    """
    if name is None:
        return Retrieval(primary)
    measure, _, cutoff = name.partition("@")
    is_judged = measure.partition(":")[0] == JUDGED_CORRECT
    if is_judged or measure in METRICS or measure in WRITTEN:
        if cutoff:
            raise UsageError(f"{measure} takes no cut-off; give it as `--answerer plain@5`")
        return JudgedAnswers(Metric(measure)) if is_judged else Answers(Metric(measure))
    if measure.startswith(SAMPLED):
        metric = estimable_metric(f"{measure.removeprefix(SAMPLED)}@{cutoff or primary.cutoff}")
        return SampledLabels(metric._replace(measure=SAMPLED + metric.measure))
    if measure in COSTS and (cutoff.isdecimal() or not cutoff):
        return Retrieval(Metric(measure, int(cutoff or primary.cutoff or 0)))
    metric = parse_metric(name)
    return Retrieval(
        metric if metric.cutoff is not None else metric._replace(cutoff=primary.cutoff)
    )


def chosen_source(
    result: EvaluationResult, name: str | None = None, whose: Collection[str] = ()
) -> MetricSource:
    """Return the metric of a name; for None the primary one, or that of answerers ``whose``.

    Without complete labels it is what a sample of labels decides.

    Raises:
        UsageError: there is no such metric, or not one of these names.
        NotEvaluated: answerers are named, and there is none.
    """
    if name is None and any(map(is_answerer, whose)):
        rows = result.answer_summary.to_pylist()
        present = {row["metric"] for row in rows if row["mean"] is not None}
        name = next((headline for headline in ANSWER_HEADLINES if headline in present), None)
        if name is None:
            raise result.lacks("has no answers")
    source = named_source(name or result.sampled_primary, result.primary)
    if isinstance(source, JudgedAnswers):
        source = source.of_judge(result.judges, result.evaluation.experiment)
    source.check_names(whose)
    return source
