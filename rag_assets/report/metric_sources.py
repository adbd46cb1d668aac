"""Which metric is meant, and how metrics of single questions fall from one evaluation to the next.

An answerer at its cut-off is one name, ``plain@5``, or ``perfect@-`` where it has none; retrievers
have no ``@`` in theirs. What a judge says of answers is the metric ``judged_correct``, or
``judged_correct:strict`` where there are several judges. What a sample of labels estimates of a
retriever is the metric with ``sampled_`` before it, ``sampled_dcg@10``.

A drop is the mean of old - new over the queries that have a value in both. H0 is that there is
none. p and the interval are those of :mod:`rag_assets.statistics.paired_differences`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from rag_assets.answers.metrics import METRICS
from rag_assets.answers.summary_stage import comparable
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.labels.sampling.label_pool import estimable_metric
from rag_assets.pipeline.history import History
from rag_assets.report.evaluation_pairs import (
    NO_VALUES,
    Cells,
    Couple,
    Drop,
    Drops,
    EvaluationPair,
    MetricSource,
    detectable_drop,
    is_answerer,
)
from rag_assets.report.judged_changes import JudgedAnswers
from rag_assets.report.result import SAMPLED, EvaluationResult, Row
from rag_assets.report.sampled import SampledLabels
from rag_assets.statistics.comparisons import difference
from rag_assets.statistics.intervals import largest_value, number_or_none
from rag_assets.statistics.paired_differences import PairedDifferences, look_p_values
from rag_assets.statistics.paired_tests import spread
from rag_assets.statistics.units import SAME, Floats, Units, counted_by_split, weighted_mean

ANSWER_HEADLINES = ("answer_f1", "evidence_cited", "grounded", "abstained")
"""The first of them that has a value is what answerers are compared by where none is named."""


class Retrieval(MetricSource):
    """A metric of retrievers that labels of evidence decide."""

    questions = "qrels"
    needs_labels = True

    def cells(self, result: EvaluationResult) -> Cells:
        """Return the retrievers at the metric's cut-off."""
        return result.query_metrics(self.metric.cutoff or 0)

    def measured(self, result: EvaluationResult, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the runs and the metrics at the cut-off."""
        values = frozenset([*names, str(self.metric.cutoff)])
        assets = {entry.asset for entry in result.evaluation.entries}
        return {asset: values for asset in assets if asset.endswith(("_runs", "metrics"))}

    def history(self, history: History, since: str) -> list[Row]:
        """Return the means at the cut-off."""
        return history.metric(self.metric.column, self.metric.cutoff or 0, since=since)

    def drops(self, pair: EvaluationPair, chosen: Sequence[Couple], alpha: float) -> Drops:
        """Test all retrievers of a look together."""
        column = self.metric.column
        cells = [(pair.old_cells[old], pair.new_cells[new]) for new, old in chosen]
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
    n_units = change.sums.shape[0]
    if p is None:
        return Drop(n, old, old, 0.0, 0.0, 0.0, None, None, None, n_units)
    rise = weighted_mean(*change.column(0)) or 0.0
    low, high = paired.intervals(1 - alpha, largest_value(before, after))
    deviation = spread(*change.column(0))
    wider = float(paired.inflations(1 - alpha)[number]) ** 0.5
    error = deviation.error * wider if deviation is not None else None
    ends = number_or_none(low[number]), number_or_none(high[number])
    smallest = detectable_drop(error, n_units, alpha)
    return Drop(n, old, old + rise, old + rise - old, *ends, p, smallest, error, n_units)


class Answers(Retrieval):
    """A metric of the words of answers."""

    subject = "answerer"
    questions = "queries"
    needs_labels = False

    def cells(self, result: EvaluationResult) -> Cells:
        """Return the answerers; of those that read the relevant texts, the answerable questions."""
        golds = result.gold_answerers
        return {
            key: comparable(table, reads_gold=key.rpartition("@")[0] in golds)
            for key, table in result.answer_metrics.items()
        }

    def check_mean(self) -> None:
        """Refuse a metric that is no mean of single questions."""
        if not METRICS[self.metric.measure].is_mean:
            problem = f"{self.metric} is not a mean of single questions"
            raise UsageError(f"{problem}; it cannot compare them")

    def measured(self, result: EvaluationResult, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the answers and their metrics."""
        return dict.fromkeys(("answers", "answer_metrics"), frozenset(names))

    def history(self, history: History, since: str) -> list[Row]:
        """Return the means of answerers, who stand where retrievers do."""
        return [
            {**row, "retriever": row["answerer"], "n_queries": row["n_questions"]}
            for row in history.answer_metric(self.metric.column, since)
        ]


def source_of(metric: Metric) -> MetricSource:
    """Return where the values of a metric come from."""
    if metric.measure.partition(":")[0] == JUDGED_CORRECT:
        return JudgedAnswers(metric)
    if metric.measure.startswith(SAMPLED):
        return SampledLabels(metric)
    return Answers(metric) if metric.measure in METRICS else Retrieval(metric)


def named_source(name: str | None, primary: Metric) -> MetricSource:
    """Return the metric of a name, the primary one for None; its cut-off where it names none.

    Raises:
        UsageError: there is no such metric.
        NotEstimable: a sample of labels does not estimate it.
    """
    if name is None:
        return Retrieval(primary)
    measure, _, cutoff = name.partition("@")
    if source_of(Metric(measure)).is_of_answers:
        if cutoff:
            raise UsageError(f"{measure} has no cut-off; an answerer has: `--answerer plain@5`")
        return source_of(Metric(measure))
    if measure.startswith(SAMPLED):
        metric = estimable_metric(f"{measure.removeprefix(SAMPLED)}@{cutoff or primary.cutoff}")
        return SampledLabels(metric._replace(measure=SAMPLED + metric.measure))
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
            experiment = result.evaluation.experiment
            raise NotEvaluated(f"the last evaluation of {experiment} has no answers")
    source = named_source(name or result.sampled_primary, result.primary)
    if isinstance(source, JudgedAnswers):
        source = source.of_judge(result.judges, result.evaluation.experiment)
    source.check_names(whose)
    return source
