"""``answer_summary`` and ``answer_comparisons``: all answerers side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.answerers import GOLD, AnswerCell
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.stage import answer_metrics_key, metric_names
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.query_facts import NONE, with_shared_documents
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, counting_of, resampling_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.schemas import ANSWER_COMPARISONS, ANSWER_SUMMARY, column_values
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.comparisons import all_pairs, comparisons
from rag_assets.statistics.intervals import bounded_intervals, largest_value, number_or_none
from rag_assets.statistics.stage import SHARED
from rag_assets.statistics.units import (
    Counted,
    Counting,
    Resampling,
    splits_counted,
    units_of,
    weighted_mean,
)
from rag_assets.store.artifacts import ArtifactKey

ANSWER_SUMMARY_KEY = ArtifactKey.of("answer_summary")
ANSWER_COMPARISONS_KEY = ArtifactKey.of("answer_comparisons")

GROUPS = ("all", "answerable", "unanswerable")
"""The questions of a split that a mean is over."""


class _OfAll(Stage):
    """Of all answerers whose metrics are up to date."""

    group: ClassVar[str] = "answers"
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        metrics = [
            Input(f"metrics_of_{cell}", answer_metrics_key(cell), optional=True)
            for cell in experiment.answer_cells
        ]
        return [*metrics, COUNTING_INPUT]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "answerers": list(experiment.answer_cells),
            "metrics": list(metric_names(experiment)),
            **asdict(resampling_of(experiment)),
        }


class AnswerSummary(_OfAll):
    """The mean of each answer metric, with its interval."""

    name = "answer_summary"
    made_for = "answerers"
    schema = ANSWER_SUMMARY
    row = "One metric of one answerer over a group of questions: its mean and interval."

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        counting = counting_of(lambda key: context.artifact(key).table())
        names, level = metric_names(context.experiment), context.experiment.statistics.confidence
        return TableProduct(answer_summary(_tables(context), counting, names, level))


class AnswerComparisons(_OfAll):
    """Paired tests of all pairs of answerers."""

    name = "answer_comparisons"
    schema = ANSWER_COMPARISONS
    row = "Two answerers by one metric: their difference, and whether it may be chance."

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [ANSWER_COMPARISONS_KEY] if len(experiment.answer_cells) > 1 else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        shared = [Input("qrels", QRELS_KEY)] if _shares_documents(experiment) else []
        return [*super().inputs(experiment, key), *shared]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        rules = {SHARED: _shares_documents(experiment), "gold": _golds(experiment)}
        return {**super().config(context, key), **rules}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        counting = counting_of(lambda key: context.artifact(key).table())
        if _shares_documents(experiment):
            counting = with_shared_documents(counting, context.artifact(QRELS_KEY).table())
        names, tables = metric_names(experiment), _tables(context)
        resampling, golds = resampling_of(experiment), _golds(experiment)
        return TableProduct(answer_comparisons(tables, counting, names, resampling, golds))


def _golds(experiment: Experiment) -> list[str]:
    """Return the answerers that read the relevant texts."""
    return [name for name, options in experiment.answerers.items() if options.context == GOLD]


def _shares_documents(experiment: Experiment) -> bool:
    return experiment.statistics.cluster == NONE and experiment.has_qrels


def _tables(context: StageContext) -> dict[AnswerCell, pa.Table]:
    """Return the metrics that are up to date, in the order of the experiment."""
    cells = context.experiment.answer_cells.items()
    artifacts = ((cell, context.current(answer_metrics_key(key))) for key, cell in cells)
    return {cell: artifact.table() for cell, artifact in artifacts if artifact is not None}


def answer_summary(
    tables: Mapping[AnswerCell, pa.Table],
    counting: Counting,
    names: Sequence[str],
    level: float,
) -> pa.Table:
    """Return the mean of every metric over every group of questions, with its interval.

    Failed answers are in every mean, with 0 where the metric is defined. A metric that is no plain
    mean is one of values that count several times (see its ``is_mean``).
    """
    rows: list[dict[str, object]] = []
    columns = [(cell, name) for cell in tables for name in names]
    for group, counted in _groups(counting, tables.values()) if columns else ():
        values = np.column_stack([counted.values(tables[cell], name) for cell, name in columns])
        once = [METRICS[name].is_mean for _, name in columns]
        multiplicities = np.where(np.isnan(values) | once, 1.0, 1.0 + values)
        weights = counted.weights[:, None] * multiplicities
        units = units_of(values, weights, counted.clusters)
        highest = [largest_value(column) for column in values.T]
        low, high = bounded_intervals(units, level, 0.0, highest)
        failed = {cell: np.nansum(counted.values(t, "failed")) for cell, t in tables.items()}
        for number, (cell, name) in enumerate(columns):
            rows.append(
                {
                    "answerer": cell.name,
                    "top_k": cell.top_k,
                    "split": counted.split,
                    "questions": group,
                    "metric": name,
                    "n_questions": len(counted.query_ids),
                    "n_failed": int(failed[cell]),
                    "n": int(np.count_nonzero(~np.isnan(values[:, number]))),
                    "mean": weighted_mean(*units.column(number)),
                    "low": number_or_none(low[number]),
                    "high": number_or_none(high[number]),
                    "confidence": level,
                }
            )
    return ANSWER_SUMMARY.from_rows(rows)


def answer_comparisons(
    tables: Mapping[AnswerCell, pa.Table],
    counting: Counting,
    names: Sequence[str],
    resampling: Resampling,
    golds: Collection[str] = (),
) -> pa.Table:
    """Compare every pair of answerers by every metric whose mean is a plain one.

    The pairs of one metric are the family of tests that Holm's method adjusts. A failed answer
    counts 0, so it is in both means. ``golds`` are the answerers that read the relevant texts.
    """
    by_key = {
        cell.key: comparable(table, reads_gold=cell.name in golds) for cell, table in tables.items()
    }
    compared = [ANSWER_COMPARISONS.empty()]
    names_here = {"retriever_a": "answerer_a", "retriever_b": "answerer_b"}
    for name in (name for name in names if METRICS[name].is_mean):
        table = comparisons(by_key, counting, (name, 0), resampling, all_pairs(list(by_key)))
        table = table.drop_columns(["top_k"]).rename_columns(names_here)
        # Where a metric is defined for none of the two, nothing is compared.
        compared.append(ANSWER_COMPARISONS.check(table.filter(pc.greater(table["n"], 0))))
    return pa.concat_tables(compared).combine_chunks()


def comparable(metrics: pa.Table, *, reads_gold: bool = False) -> pa.Table:
    """Return metrics of answers as statistics of retrieval read them.

    Of retrievers answerable queries are compared; of answerers, all questions that have a value.
    Who reads the relevant texts has an empty context for an unanswerable question: there it has no
    value, so that nobody is compared with it on these questions.
    """
    for name in METRICS if reads_gold else ():
        if name in metrics.column_names:
            place, column = metrics.column_names.index(name), metrics[name]
            fair = pc.if_else(metrics["answerable"], column, pa.scalar(None, column.type))
            metrics = metrics.set_column(place, metrics.schema.field(name), fair)
    return metrics.append_column("n_relevant", pa.array([1] * metrics.num_rows, pa.int32()))


def _groups(counting: Counting, tables: Collection[pa.Table]) -> Iterator[tuple[str, Counted]]:
    """Yield the questions of each group of each split that has any."""
    answerable: dict[str, bool | None] = {}
    for table in tables:
        answerable.update(column_values(table, "query_id", "answerable"))
    counted: dict[tuple[str, str], Counted] = {}
    for group in GROUPS:
        chosen = {
            row["query_id"]
            for row in counting
            if group == "all" or answerable.get(row["query_id"]) is (group == "answerable")
        }
        counted |= {(of.split, group): of for of in splits_counted(counting, chosen)}
    for split in sorted({split for split, _ in counted}):
        yield from ((group, counted[split, group]) for group in GROUPS if (split, group) in counted)
