"""All cells of an experiment in one table, ranked by the primary metric."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rag_assets.evaluation.metric_names import Metric
from rag_assets.schemas import LEADERBOARD

TIE = 1e-12
"""Two means nearer than this are one value; the last bits of a sum carry no meaning."""


def leaderboard(summaries: Mapping[str, pa.Table], primary: Metric) -> pa.Table:
    """Return one row a cell; retrievers best first, cut-offs ascending within a retriever.

    Args:
        summaries: retriever -> table of :data:`rag_assets.schemas.METRICS_SUMMARY`.
        primary: the metric by which retrievers are placed. One without its cell comes last.
    """
    values = {name: _value(table, primary) for name, table in summaries.items()}
    order = sorted(values, key=lambda name: (-values[name], name))
    tables = []
    for name in order:
        table = summaries[name]
        position = 1 + sum(other > values[name] + TIE for other in values.values())
        lead = {
            "position": pa.array([position] * table.num_rows, pa.int32()),
            "retriever": pa.array([name] * table.num_rows, pa.string()),
        }
        tables.append(pa.table({**lead, **{c: table.column(c) for c in table.column_names}}))
    if not tables:
        return LEADERBOARD.empty()
    return LEADERBOARD.check(pa.concat_tables(tables, promote_options="default").combine_chunks())


def _value(table: pa.Table, primary: Metric) -> float:
    rows = [row for row in table.to_pylist() if row["top_k"] == primary.cutoff]
    value = rows[0].get(primary.column) if rows else None
    return float("-inf") if value is None else float(value)
