"""The independent units of an experiment: its queries, or clusters of queries.

Questions that were made from the same document rise and fall together: they are fewer
observations than they seem. All of a cluster is then resampled, and flipped, as one.

A mean over queries with the weights w is sum(w * v) / sum(w). Each unit i enters it with its sums
S_i = sum of w * v and W_i = sum of w over its queries that have a value; so every method here needs
these two alone. Without clusters and weights S_i is the query's value and W_i is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_assets.statistics.resampling import Floats

SAME = 1e-12
"""Two values nearer than this are one value; the last bits of a sum carry no meaning."""


@dataclass(frozen=True)
class Units:
    """Sums of every unit, for one column or several.

    Attributes:
        sums: S, shape (units, columns).
        weights: W, of the same shape; 0 where no query of the unit has a value.
    """

    sums: Floats
    weights: Floats

    def column(self, number: int) -> tuple[Floats, Floats]:
        """Return S and W of one column, of those units that have a value in it."""
        sums, weights = self.sums[:, number], self.weights[:, number]
        there = weights > 0
        return sums[there], weights[there]


def units_of(values: Floats, weights: Floats, clusters: Sequence[str]) -> Units:
    """Gather queries into units, in the order of the clusters' names.

    Args:
        values: shape (queries, columns); NaN where a query has no value.
        weights: shape (queries,), 0 or more; a query of weight 0 is not there.
        clusters: a name for each query; its own id where it stands alone.
    """
    number = {name: i for i, name in enumerate(sorted(set(clusters)))}
    rows = np.fromiter((number[name] for name in clusters), np.intp, len(clusters))
    known = ~np.isnan(values)
    weighted = np.where(known, weights[:, None], 0.0)
    sums = np.zeros((len(number), values.shape[1]))
    totals = np.zeros_like(sums)
    np.add.at(sums, rows, np.where(known, values, 0.0) * weighted)
    np.add.at(totals, rows, weighted)
    return Units(sums, totals)


def weighted_mean(sums: Floats, weights: Floats) -> float | None:
    """Return sum(S) / sum(W) by exact summation; None without any weight."""
    total = math.fsum(weights)
    return math.fsum(sums) / total if total > 0 else None
