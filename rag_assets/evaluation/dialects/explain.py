"""Query by query: where the dialects differ from ours and from each other, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.dialect import Dialect, ToolInput, ToolMetric
from rag_assets.evaluation.dialects.differences import Situation, reasons
from rag_assets.evaluation.metric_names import Metric, parse_metric, shown_name
from rag_assets.evaluation.metrics import WHOLE_RANKING
from rag_assets.evaluation.score import score
from rag_assets.schemas import RUNS

EQUAL_WITHIN = 1e-9
"""Values closer than this are equal: tools add in different orders."""

UNKNOWN = "for a reason that is not in the table of known differences"


def explain(
    data: ToolInput, judgments: pa.Table, metrics: Sequence[str]
) -> list[dict[str, object]]:
    """Return one row for each query, metric and dialect whose value is not ours.

    Args:
        data: the lists and labels as tools are given them.
        judgments: the same labels, table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        metrics: canonical names; the lists are cut at their cut-offs for every tool.

    Returns:
        Rows with ``query_id``, ``metric``, ``ours``, ``dialect``, ``name`` (the tool's own, with
        its cut-off), ``value`` and ``why``. A value is None where a side has none: a query that it
        leaves out, or on which it fails; ours for a query that repeats documents.
    """
    names = [shown_name(name) for name in metrics]
    ours = _ours(data, judgments, names)
    rows = []
    for name in names:
        metric = parse_metric(name)
        for dialect in DIALECTS.values():
            tool_metric = _counterpart(dialect, metric)
            if tool_metric is not None:
                rows += _rows(
                    data, dialect, tool_metric, metric, {q: v[name] for q, v in ours.items()}
                )
    order = {query.query_id: position for position, query in enumerate(data.judged)}
    return sorted(rows, key=lambda row: order[str(row["query_id"])])


def _counterpart(dialect: Dialect, metric: Metric) -> ToolMetric | None:
    """Return None also for a metric with parameters, which no counterpart has."""
    plain = metric.measure if metric.cutoff is None else f"{metric.measure}@{metric.cutoff}"
    return dialect.counterpart(metric.measure, metric.cutoff) if str(metric) == plain else None


def _rows(
    data: ToolInput,
    dialect: Dialect,
    tool_metric: ToolMetric,
    metric: Metric,
    ours: Mapping[str, float | None],
) -> list[dict[str, object]]:
    values = dialect.outcome(data, tool_metric).per_query
    rows: list[dict[str, object]] = []
    for query in data.judged:
        value, our_value = values[query.query_id], ours[query.query_id]
        if _equal(value, our_value):
            continue
        case = Situation(query, metric.cutoff or WHOLE_RANKING, dialect)
        rows.append(
            {
                "query_id": query.query_id,
                "metric": str(metric),
                "ours": our_value,
                "dialect": dialect.name,
                "name": tool_metric.name,
                "value": value,
                "why": "; ".join(reasons(metric.measure, case)) or UNKNOWN,
            }
        )
    return rows


def _equal(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= EQUAL_WITHIN


def _ours(
    data: ToolInput, judgments: pa.Table, metrics: Sequence[str]
) -> dict[str, dict[str, float | None]]:
    """Return query -> metric -> value; None throughout for a query that repeats documents."""
    refused = {query.query_id for query in data.judged if query.repeated}
    run = RUNS.from_rows(
        [
            {
                "query_id": query.query_id,
                "rank": rank,
                "score": query.scores[item],
                "unit_id": item,
                "chunk_id": item,
                "document_id": item,
            }
            for query in data.judged
            if query.query_id not in refused
            for rank, item in enumerate(query.ranking, 1)
        ]
    )
    query_ids = pa.array([query.query_id for query in data.judged], pa.string())
    labels = judgments.filter(pc.is_in(judgments["query_id"], value_set=query_ids))
    rows = {str(row["query_id"]): row for row in score(run, labels, metrics).per_query}
    return {
        query_id: {name: None if query_id in refused else _number(row[name]) for name in metrics}
        for query_id, row in rows.items()
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, float | int) else None
