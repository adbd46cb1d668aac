"""Intervals of means by the percentile bootstrap: where they would lie on other such queries.

As many units as there are (queries, or clusters) are drawn with replacement, and the weighted mean
of the drawn ones is taken; so often, and the bounds are quantiles of these means: the percentile
interval of Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13. Units are
drawn with equal chance whatever their weights: a weight says how much a query counts in the mean,
not how often it is met.

The units drawn depend on the seed and the number of units alone. So all retrievers and metrics
are measured on the same resamples, and differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.schemas import INTERVALS, QUERY_METRICS
from rag_assets.statistics.resampling import Floats, Resampling, blocks, on_grid
from rag_assets.statistics.units import Counted, Units, counted_by_split, units_of, weighted_mean

METHOD = "percentile bootstrap"

Counts = npt.NDArray[np.integer[Any]]

_CACHED_COUNTS = 1 << 25
"""Counts that are kept for the next intervals, at most; 64 MiB of them for up to 65,535 units."""


def bootstrap_intervals(units: Units, resampling: Resampling) -> tuple[Floats, Floats]:
    """Return the lower and the upper bound of every column's weighted mean.

    Returns:
        Two arrays of shape (columns,); NaN where fewer than two units have a value, because one
        observation says nothing about the spread of others.
    """
    n_columns = units.sums.shape[1]
    low, high = np.full(n_columns, np.nan), np.full(n_columns, np.nan)
    measured = np.flatnonzero(np.count_nonzero(units.weights > 0, axis=0) >= 2)
    if measured.size == 0:
        return low, high
    means = resampled_means(Units(units.sums[:, measured], units.weights[:, measured]), resampling)
    low[measured], high[measured] = np.nanquantile(means, resampling.tails, axis=0)
    return low, high


def resampled_means(units: Units, resampling: Resampling) -> Floats:
    """Return the weighted means, shape (resamples, columns); NaN: none of the drawn has a value."""
    n_units, n_columns = units.sums.shape
    both = np.hstack([units.sums, units.weights])
    exact = on_grid(both, n_units * np.abs(both).max(axis=0))
    means = np.empty((resampling.resamples, n_columns))
    for start, end, counts in _counts(n_units, resampling):
        drawn = counts @ exact
        sums, weights = drawn[:, :n_columns], drawn[:, n_columns:]
        means[start:end] = np.divide(
            sums, weights, out=np.full_like(sums, np.nan), where=weights > 0
        )
    return means


def _counts(n_units: int, resampling: Resampling) -> Iterator[tuple[int, int, Floats]]:
    """Yield blocks of resamples: how often each unit was drawn, shape (block, units)."""
    small = n_units * resampling.resamples <= _CACHED_COUNTS
    draws = _cached_draws if small else _draws
    start = 0
    for counts in draws(n_units, resampling):
        yield start, start + len(counts), counts.astype(np.float64)
        start += len(counts)


@lru_cache(maxsize=2)
def _cached_draws(n_units: int, resampling: Resampling) -> tuple[Counts, ...]:
    """Return what is drawn; all retrievers and pairs of an experiment are given the same."""
    kind = np.min_scalar_type(n_units)  # a unit can be drawn as often as there are units
    return tuple(counts.astype(kind) for counts in _draws(n_units, resampling))


def _draws(n_units: int, resampling: Resampling) -> Iterator[Counts]:
    generator = resampling.generator()
    for start, end in blocks(resampling.resamples, n_units):
        n_rows = end - start
        drawn = generator.integers(0, n_units, size=(n_rows, n_units))
        drawn += np.arange(n_rows)[:, None] * n_units
        counts = np.bincount(drawn.ravel(), minlength=n_rows * n_units)
        yield counts.reshape(n_rows, n_units)


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
