"""All families of metrics in one call: the columns of those that are asked for, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from rag_assets.evaluation.grouped import group_metrics
from rag_assets.evaluation.metric_names import GROUP_MEASURES
from rag_assets.evaluation.metrics import Cell, query_metrics


def all_metrics(
    runs: Mapping[str, pa.Table],
    judgments: Mapping[str, pa.Table],
    judged_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
    measures: Iterable[str],
) -> dict[Cell, pa.Table]:
    """Compute every family that holds one of the ``measures``, and the counts of each query.

    Args:
        runs: as :func:`rag_assets.evaluation.metrics.query_metrics` takes them; so are the
            next four.
        judgments: name -> judgments.
        judged_by: run -> the name of its judgments.
        queries: a table with the column ``query_id``.
        cutoffs: the (run, k) pairs that are wanted.
        measures: canonical names.

    Returns:
        (run, k) -> table of :data:`rag_assets.schemas.QUERY_METRICS` sorted by query id, with at
        least these measures.
    """
    cells, asked = list(cutoffs), set(measures)
    tables = query_metrics(runs, judgments, judged_by, queries, cells)
    if asked.intersection(GROUP_MEASURES):
        more = group_metrics(runs, judgments, judged_by, queries, cells)
        tables = {cell: _beside(table, more[cell]) for cell, table in tables.items()}
    return tables


def _beside(table: pa.Table, more: pa.Table) -> pa.Table:
    """Both have one row for each query, sorted by its id."""
    for name in more.column_names[1:]:
        table = table.append_column(name, more.column(name))
    return table
