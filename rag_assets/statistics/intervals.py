"""Intervals of means and of mean differences of bounded values: one rule for all of them.

Two pseudo-units are added, one with the lowest value that there can be and one with the highest,
each as heavy as an average unit. The interval is Student's around the mean of them all, cut to what
is possible, and it holds the mean of the units themselves. (Agresti and Coull, The American
Statistician 52, 1998, add two successes and two failures in the same way.) So it never has width 0:
that nothing was lost on 80 questions does not show that nothing can be.
``benchmarks/bounded_intervals.py`` prints how often it covers.

Shares have Wilson's interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.schemas import INTERVALS, QUERY_METRICS
from rag_assets.statistics.paired_tests import spread
from rag_assets.statistics.units import (
    Counted,
    Counting,
    Floats,
    Units,
    counted_by_split,
    units_of,
    weighted_mean,
)

METHOD = "Student's with two extreme values"


def bounded_intervals(
    units: Units,
    level: float,
    lowest: npt.ArrayLike,
    highest: npt.ArrayLike,
    inflation: npt.ArrayLike = 1.0,
) -> tuple[Floats, Floats]:
    """Return the lower and the upper bound of every column's weighted mean.

    NaN where fewer than two units have a value: one observation says nothing about the spread.

    Args:
        units: sums and weights, shape (units, columns).
        level: of the intervals.
        lowest: what the value of a unit can be at least; a number, or one a column.
        highest: what it can be at most; likewise.
        inflation: by how much the variance is larger than that of independent units; likewise.
    """
    from scipy.special import stdtrit

    n_columns = units.sums.shape[1]
    low, high = np.full(n_columns, np.nan), np.full(n_columns, np.nan)
    least, most, factor = (np.broadcast_to(x, n_columns) for x in (lowest, highest, inflation))
    for number in range(n_columns):
        sums, weights = units.column(number)
        mean = weighted_mean(sums, weights)
        if sums.size < 2 or mean is None:
            continue
        average = weights.mean()
        extremes = np.array([least[number], most[number]])
        wide = spread(np.append(sums, extremes * average), np.append(weights, [average] * 2))
        assert wide is not None
        half = stdtrit(wide.n_units - 1, (1 + level) / 2) * wide.error * np.sqrt(factor[number])
        low[number] = min(max(wide.mean - half, least[number]), mean)
        high[number] = max(min(wide.mean + half, most[number]), mean)
    return low, high


def largest_value(*values: Floats) -> float:
    """Return what a query can have at most: 1, as of most metrics, or the largest value seen."""
    numbers = np.abs(np.concatenate([each[~np.isnan(each)] for each in values]))
    return max(1.0, float(numbers.max(initial=0.0)))


def wilson(share: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return the bounds of a share of ``n`` independent observations; (0, 1) without one.

    (p + z^2 / 2n +- z * sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), z the quantile of the
    normal distribution (Wilson 1927; Brown, Cai and DasGupta 2001). ``n`` is no whole number where
    observations weigh unequally.
    """
    from scipy.special import ndtri

    if n <= 0:
        return 0.0, 1.0
    z = float(ndtri((1 + level) / 2))
    shrink = 1 + z**2 / n
    middle = (share + z**2 / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / shrink
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def intervals(cells: Mapping[int, pa.Table], counting: Counting, level: float) -> pa.Table:
    """Return a row for each split, cut-off and metric of one retriever.

    Means are weighted, over the answerable queries that have a value. ``cells`` is top_k -> query
    metrics.
    """
    rows: list[dict[str, object]] = []
    for counted in counted_by_split(counting, cells.values()):
        rows += _rows(counted, cells, level)
    return INTERVALS.from_rows(rows)


def _rows(counted: Counted, cells: Mapping[int, pa.Table], level: float) -> list[dict[str, object]]:
    declared = {*QUERY_METRICS.arrow().names}
    columns = [
        (top_k, name)
        for top_k in sorted(cells)
        for name in cells[top_k].column_names
        if name not in declared
    ]
    if not columns:
        return []
    values = np.column_stack([counted.values(cells[top_k], name) for top_k, name in columns])
    units = units_of(values, counted.weights, counted.clusters)
    highest = [largest_value(column) for column in values.T]
    low, high = bounded_intervals(units, level, 0.0, highest)
    lone = units.sums.shape[0] == len(counted.query_ids)
    shared = {"confidence": level, "method": f"{METHOD} over {'queries' if lone else 'clusters'}"}
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


def number_or_none(value: float) -> float | None:
    """Return a float for a table: NaN, which means that there is no value, becomes null."""
    return None if np.isnan(value) else float(value)
