"""All families of metrics in one call: the columns of those that are asked for, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.evaluation.grouped import group_metrics
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_inputs import Cell
from rag_assets.evaluation.metric_names import GROUP_MEASURES, RANKING_MEASURES, Metric
from rag_assets.evaluation.metrics import Source, query_metrics, read_sources

_FAMILIES: Mapping[str, Callable[..., dict[Cell, pa.Table]]] = {"group": group_metrics}
"""The families that are computed only where one of their metrics is asked for."""

_MEASURES = {"group": GROUP_MEASURES}


def family_code(metrics: Iterable[Metric]) -> list[Root]:
    """Return the roots of the code of those families that hold one of the ``metrics``."""
    computed = {metric.measure for metric in metrics}
    names = [name for name, measures in _MEASURES.items() if computed & {*measures}]
    measures = {root_of(MEASURE_TYPES[name]) for name in computed & {*RANKING_MEASURES}}
    return [*(f"{__name__}:_FAMILIES[{name}]" for name in ("", *names)), *sorted(measures)]


def all_metrics(
    runs: Mapping[str, Source],
    relevant_units: Mapping[str, Source],
    judged_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
    metrics: Iterable[Metric],
) -> dict[Cell, pa.Table]:
    """Compute every family that holds one of the ``metrics``, and the counts of each query.

    Args:
        runs: as :func:`rag_assets.evaluation.metrics.query_metrics` takes them; so are the
            next four.
        relevant_units: name -> relevant units.
        judged_by: run -> the name of its relevant units.
        queries: a table with the column ``query_id``.
        cutoffs: the (run, k) pairs that are wanted.
        metrics: what to compute; their own cut-offs are not read.

    Returns:
        (run, k) -> table of :data:`rag_assets.schemas.QUERY_METRICS` sorted by query id, with
        one column a metric.
    """
    cells, chosen = list(cutoffs), list(metrics)
    ranking = [metric for metric in chosen if metric.measure in RANKING_MEASURES]
    tables = query_metrics(runs, relevant_units, judged_by, queries, cells, ranking)
    for name, family in _FAMILIES.items():
        if not any(metric.measure in _MEASURES[name] for metric in chosen):
            continue
        read = (read_sources(runs), read_sources(relevant_units))
        more = family(*read, judged_by, queries, cells)
        tables = {cell: _beside(table, more[cell]) for cell, table in tables.items()}
    return tables


def _beside(table: pa.Table, more: pa.Table) -> pa.Table:
    """Both have one row for each query, sorted by its id."""
    for name in more.column_names[1:]:
        table = table.append_column(name, more.column(name))
    return table
