"""Percentile bootstrap: between which bounds a mean would lie on other queries of this kind.

As many units as there are (queries, or clusters) are drawn with replacement, and the weighted mean
of the drawn ones is taken; so often, and the bounds are quantiles of these means: the percentile
interval of Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13. Units are
drawn with equal chance whatever their weights: a weight says how much a query counts in the mean,
not how often it is met.

The units drawn depend on the seed and the number of units alone. So all retrievers and metrics
are measured on the same resamples, and differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.resampling import Floats, Resampling, blocks, on_grid
from rag_assets.statistics.units import Units

METHOD = "percentile bootstrap"

Counts = npt.NDArray[np.integer[Any]]

_KEPT = 1 << 25
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
    means = _resampled_means(Units(units.sums[:, measured], units.weights[:, measured]), resampling)
    low[measured], high[measured] = np.nanquantile(means, resampling.tails, axis=0)
    return low, high


def _resampled_means(units: Units, resampling: Resampling) -> Floats:
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
    small = n_units * resampling.resamples <= _KEPT
    drawn = _kept if small else _drawn
    start = 0
    for counts in drawn(n_units, resampling):
        yield start, start + len(counts), counts.astype(np.float64)
        start += len(counts)


@lru_cache(maxsize=2)
def _kept(n_units: int, resampling: Resampling) -> tuple[Counts, ...]:
    """Return what is drawn; all retrievers and pairs of an experiment are given the same."""
    kind = np.min_scalar_type(n_units)  # a unit can be drawn as often as there are units
    return tuple(counts.astype(kind) for counts in _drawn(n_units, resampling))


def _drawn(n_units: int, resampling: Resampling) -> Iterator[Counts]:
    generator = resampling.generator()
    for start, end in blocks(resampling.resamples, n_units):
        n_rows = end - start
        drawn = generator.integers(0, n_units, size=(n_rows, n_units))
        drawn += np.arange(n_rows)[:, None] * n_units
        counts = np.bincount(drawn.ravel(), minlength=n_rows * n_units)
        yield counts.reshape(n_rows, n_units)
