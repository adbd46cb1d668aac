"""The interval of every mean of one retriever."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from rag_assets.schemas import INTERVALS, QUERY_METRICS
from rag_assets.statistics.bootstrap import METHOD, bootstrap_intervals
from rag_assets.statistics.resampling import Resampling
from rag_assets.statistics.units import Counted, counted_by_split, units_of, weighted_mean


def intervals(
    cells: Mapping[int, pa.Table], counting: pa.Table, resampling: Resampling
) -> pa.Table:
    """Return a row for each split, cut-off and metric.

    Args:
        cells: top_k -> table of :data:`rag_assets.schemas.QUERY_METRICS` of one retriever.
        counting: query_id, weight, split, cluster of every query.
        resampling: level, number and seed of the bootstrap.

    Returns:
        Table of :data:`INTERVALS`, in the order of split, top_k and the metrics' columns. Means
        are weighted, over the answerable queries that have a value.
    """
    rows: list[dict[str, object]] = []
    for counted in counted_by_split(counting, cells.values()):
        rows += _rows(counted, cells, resampling)
    return INTERVALS.from_rows(rows)


def _rows(
    counted: Counted, cells: Mapping[int, pa.Table], resampling: Resampling
) -> list[dict[str, object]]:
    columns = [(top_k, name) for top_k in sorted(cells) for name in metric_columns(cells[top_k])]
    if not columns:
        return []
    values = np.column_stack([counted.values(cells[top_k], name) for top_k, name in columns])
    units = units_of(values, counted.weights, counted.clusters)
    low, high = bootstrap_intervals(units, resampling)
    lone = units.sums.shape[0] == len(counted.query_ids)
    shared = {
        "confidence": resampling.confidence,
        "resamples": resampling.resamples,
        "method": f"{METHOD} over {'queries' if lone else 'clusters'}",
    }
    return [
        {
            "split": counted.split,
            "top_k": top_k,
            "metric": name,
            "n": int(np.count_nonzero(~np.isnan(values[:, number]))),
            "mean": weighted_mean(*units.column(number)),
            "low": number_or_none(low[number]),
            "high": number_or_none(high[number]),
            **shared,
        }
        for number, (top_k, name) in enumerate(columns)
    ]


def metric_columns(table: pa.Table) -> list[str]:
    """Return the metrics of a table of :data:`rag_assets.schemas.QUERY_METRICS`."""
    declared = set(QUERY_METRICS.arrow().names)
    return [name for name in table.column_names if name not in declared]


def number_or_none(value: float) -> float | None:
    """Return a float for a table: NaN, which means that there is no value, becomes null."""
    return None if np.isnan(value) else float(value)
