"""Compares retrievers two by two on the same queries: every statistic of a pair in one row.

Among them how large a difference is, apart from how sure: see
:mod:`rag_assets.statistics.paired_differences`. P-values are made safe to read side by side
by Holm's correction: of twenty comparisons of equals one falls below .05. With the family's
p-values in ascending order, p_(1) to p_(m), the adjusted ones are max over j <= i of
(m - j + 1) * p_(j), at most 1: the chance of even one false alarm in the family then stays below
the level (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 6, 1979). It assumes nothing about how the tests depend on each other, and rejects
whatever Bonferroni's does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa

from rag_assets.schemas import COMPARISONS
from rag_assets.statistics.intervals import largest_value, number_or_none
from rag_assets.statistics.paired_differences import PairedDifferences
from rag_assets.statistics.resampling import Floats, Resampling
from rag_assets.statistics.t_test import ALPHA, detectable_difference, t_test_p_value
from rag_assets.statistics.units import SAME, Counted, Units, counted_by_split
from rag_assets.statistics.wilcoxon import wilcoxon_p_value

Pairs = Sequence[tuple[str, str]]
Row = dict[str, object]


def all_pairs(retrievers: Sequence[str]) -> Pairs:
    """Return every pair, in the order of the retrievers."""
    return list(combinations(retrievers, 2))


def comparisons(
    cells: Mapping[str, pa.Table],
    counting: pa.Table,
    metric: tuple[str, int],
    resampling: Resampling,
    pairs: Pairs,
) -> pa.Table:
    """Compare pairs; together they are the family of tests that Holm's method adjusts.

    A query counts in a pair when both have a value: it is answerable, and neither failed on it.

    Args:
        cells: retriever -> table of :data:`rag_assets.schemas.QUERY_METRICS`, all at one top_k.
        counting: query_id, weight, split, cluster of every query.
        metric: the metric's column, and that top_k.
        resampling: level of the intervals; number and seed of the randomisation test.
        pairs: of keys of ``cells``.

    Returns:
        Table of :data:`COMPARISONS`, for each split the pairs in the order given.
    """
    rows: list[Row] = []
    if pairs:
        for counted in counted_by_split(counting, cells.values()):
            rows += _rows(counted, cells, metric, resampling, pairs)
    return COMPARISONS.from_rows(rows)


def _rows(
    counted: Counted,
    cells: Mapping[str, pa.Table],
    metric: tuple[str, int],
    resampling: Resampling,
    pairs: Pairs,
) -> list[Row]:
    column, top_k = metric
    values = {name: counted.values(table, column) for name, table in cells.items()}
    differences = np.column_stack([values[b] - values[a] for a, b in pairs])
    paired = PairedDifferences(counted, differences)
    units, inflations = paired.units, paired.inflations(1 - ALPHA)
    reach = np.array([largest_value(values[a], values[b]) for a, b in pairs])
    low, high = paired.intervals(resampling.confidence, reach)
    p_values = paired.p_values(resampling)
    rows: list[Row] = []
    for number, ((a, b), adjusted) in enumerate(zip(pairs, holm(p_values), strict=True)):
        rows.append(
            {
                "retriever_a": a,
                "retriever_b": b,
                "split": counted.split,
                "metric": column,
                "top_k": top_k,
                **_of_queries(values[a], values[b], counted.weights),
                "low": number_or_none(low[number]),
                "high": number_or_none(high[number]),
                "p_randomisation": p_values[number],
                "p_adjusted": adjusted,
                **_of_units(units, number, float(inflations[number]) ** 0.5),
            }
        )
    return rows


def _of_queries(a: Floats, b: Floats, weights: Floats) -> Row:
    """Return what is counted and averaged over the queries on which both have a value."""
    both = ~(np.isnan(a) | np.isnan(b))
    a, b, weights = a[both], b[both], weights[both]
    gained = b - a
    won, lost = int((gained > SAME).sum()), int((gained < -SAME).sum())
    return {
        "n": int(both.sum()),
        "mean_a": difference(a, weights),
        "mean_b": difference(b, weights),
        "difference": difference(gained, weights),
        "effect_size": cohens_d(gained, weights),
        "won": won,
        "tied": int(both.sum()) - won - lost,
        "lost": lost,
    }


def _of_units(units: Units, number: int, wider: float) -> Row:
    """Return what is tested over independent units, and what shared evidence adds to the error."""
    sums, weights = units.column(number)
    detectable = detectable_difference(sums, weights)
    return {
        "n_clusters": int(sums.size),
        "p_t": t_test_p_value(sums),
        "p_wilcoxon": wilcoxon_p_value(sums, weights),
        "detectable": None if detectable is None else detectable * wider,
    }


def difference(differences: Floats, weights: Floats) -> float | None:
    """Return the weighted mean difference; None without any query."""
    total = math.fsum(weights)
    return math.fsum(differences * weights) / total if total > 0 else None


def cohens_d(differences: Floats, weights: Floats) -> float | None:
    """Return Cohen's d_z: the mean difference over the standard deviation of the differences.

    It is of queries, also where these are clustered: how far a query's difference lies from zero,
    by how much queries vary. Weighted: s^2 = n / (n - 1) * sum(w * (d - m)^2) / sum(w). Cohen,
    Statistical Power Analysis for the Behavioral Sciences, 1988, section 2.3.5.

    Args:
        differences: of each query that has a value.
        weights: of the same queries, above 0.

    Returns:
        None for fewer than two queries. 0 when all differences are 0, None when all are of one
        other value: there is no spread to measure by.
    """
    n, mean = differences.size, difference(differences, weights)
    if n < 2 or mean is None:
        return None
    residuals = differences - mean
    residuals[np.abs(residuals) <= SAME] = 0.0
    variance = n / (n - 1) * math.fsum(weights * residuals**2) / math.fsum(weights)
    if variance == 0:
        return 0.0 if abs(mean) <= SAME else None
    return mean / math.sqrt(variance)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the adjusted p-values, in the order given; a test without p is not of the family."""
    tested = [(p, place) for place, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for done, (p, place) in enumerate(sorted(tested)):
        highest = max(highest, min(1.0, (len(tested) - done) * p))
        adjusted[place] = highest
    return adjusted
