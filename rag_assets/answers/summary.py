"""Means of the metrics of answers with their intervals, and answerers compared two by two."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.metrics import METRICS
from rag_assets.answers.options import AnswerCell
from rag_assets.schemas import ANSWER_COMPARISONS, ANSWER_SUMMARY
from rag_assets.statistics.comparisons import all_pairs, comparisons
from rag_assets.statistics.intervals import bounded_intervals, largest_value, number_or_none
from rag_assets.statistics.units import (
    Counted,
    Floats,
    Resampling,
    splits_counted,
    units_of,
    weighted_mean,
)

GROUPS = ("all", "answerable", "unanswerable")
"""The questions of a split that a mean is over."""


def answer_summary(
    tables: Mapping[AnswerCell, pa.Table],
    counting: pa.Table,
    names: Sequence[str],
    level: float,
) -> pa.Table:
    """Return the mean of every metric over every group of questions, with its interval.

    Failed answers are in every mean, with 0 where the metric is defined. A metric that is no plain
    mean is one of values that count several times
    (:meth:`~rag_assets.answers.metrics.AnswerMetric.multiplicity`).

    Args:
        tables: answerer and cut-off -> table of :data:`~rag_assets.answers.tables.ANSWER_METRICS`.
        counting: query_id, weight, split, cluster of every query.
        names: the metrics.
        level: of the intervals.

    Returns:
        Table of :data:`rag_assets.schemas.ANSWER_SUMMARY`.
    """
    rows: list[dict[str, object]] = []
    columns = [(cell, name) for cell in tables for name in names]
    for group, counted in _groups(counting, tables.values()) if columns else ():
        values = np.column_stack([counted.values(tables[cell], name) for cell, name in columns])
        weights = counted.weights[:, None] * _multiplicities(values, columns)
        units = units_of(values, weights, counted.clusters)
        highest = [largest_value(column) for column in values.T]
        low, high = bounded_intervals(units, level, 0.0, highest)
        failed = {cell: _n_failed(table, counted) for cell, table in tables.items()}
        for number, (cell, name) in enumerate(columns):
            rows.append(
                {
                    "answerer": cell.name,
                    "top_k": cell.top_k,
                    "split": counted.split,
                    "questions": group,
                    "metric": name,
                    "n_questions": len(counted.query_ids),
                    "n_failed": failed[cell],
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
    counting: pa.Table,
    names: Sequence[str],
    resampling: Resampling,
    golds: Collection[str] = (),
) -> pa.Table:
    """Compare every pair of answerers by every metric whose mean is a plain one.

    The pairs of one metric are the family of tests that Holm's method adjusts. A failed answer
    counts 0, so it is in both means.

    Args:
        tables: answerer and cut-off -> table of :data:`~rag_assets.answers.tables.ANSWER_METRICS`.
        counting: query_id, weight, split, cluster of every query.
        names: the metrics.
        resampling: of intervals and of the randomisation test.
        golds: the answerers that read the relevant texts.

    Returns:
        Table of :data:`rag_assets.schemas.ANSWER_COMPARISONS`.
    """
    one = {
        cell.key: comparable(table, reads_gold=cell.name in golds) for cell, table in tables.items()
    }
    found = [ANSWER_COMPARISONS.empty()]
    for name in (name for name in names if METRICS[name].is_mean):
        table = comparisons(one, counting, (name, 0), resampling, all_pairs(list(one)))
        table = table.drop_columns(["top_k"]).rename_columns(
            {"retriever_a": "answerer_a", "retriever_b": "answerer_b"}
        )
        # Where a metric is defined for none of the two, nothing is compared.
        found.append(ANSWER_COMPARISONS.check(table.filter(pc.greater(table["n"], 0))))
    return pa.concat_tables(found).combine_chunks()


def comparable(metrics: pa.Table, *, reads_gold: bool = False) -> pa.Table:
    """Return metrics of answers as statistics of retrieval read them.

    Of retrievers answerable queries are compared; of answerers, all questions that have a value.
    Who reads the relevant texts has nothing to read for an unanswerable question, and so always
    refuses it: there it has no value, so that nobody is compared with it on these questions.

    Args:
        metrics: table of :data:`~rag_assets.answers.tables.ANSWER_METRICS`.
        reads_gold: whether the answerer reads the relevant texts.
    """
    for name in METRICS if reads_gold else ():
        if name in metrics.column_names:
            place, column = metrics.column_names.index(name), metrics[name]
            fair = pc.if_else(metrics["answerable"], column, pa.scalar(None, column.type))
            metrics = metrics.set_column(place, metrics.schema.field(name), fair)
    return metrics.append_column("n_relevant", pa.array([1] * metrics.num_rows, pa.int32()))


def _groups(counting: pa.Table, tables: Collection[pa.Table]) -> Iterator[tuple[str, Counted]]:
    """Yield the questions of each group of each split that has any."""
    answerable: dict[str, bool | None] = {}
    for table in tables:
        columns = (table[name].to_pylist() for name in ("query_id", "answerable"))
        answerable.update(zip(*columns, strict=True))
    counted: dict[tuple[str, str], Counted] = {}
    for group in GROUPS:
        chosen = {
            query_id
            for query_id in counting["query_id"].to_pylist()
            if group == "all" or answerable.get(query_id) is (group == "answerable")
        }
        counted |= {(one.split, group): one for one in splits_counted(counting, chosen)}
    for split in sorted({split for split, _ in counted}):
        yield from ((group, counted[split, group]) for group in GROUPS if (split, group) in counted)


def _multiplicities(values: Floats, columns: Sequence[tuple[AnswerCell, str]]) -> Floats:
    """Return how often each value counts, beside the weights of the questions."""
    counts = np.ones_like(values)
    for number, (_, name) in enumerate(columns):
        metric = METRICS[name]()
        if not metric.is_mean:
            own = [1.0 if np.isnan(v) else metric.multiplicity(float(v)) for v in values[:, number]]
            counts[:, number] = own
    return counts


def _n_failed(table: pa.Table, counted: Counted) -> int:
    failed = table.filter(table["failed"])["query_id"]
    return int(pc.sum(pc.is_in(failed, value_set=pa.array(counted.query_ids))).as_py() or 0)
