"""Compares retrievers two by two on the same queries: every statistic of a pair in one row.

P-values are made safe to read side by side by Holm's correction: with the family's p-values in
ascending order, p_(1) to p_(m), the adjusted ones are max over j <= i of (m - j + 1) * p_(j), at
most 1. The chance of even one false alarm in the family stays below the level, however the tests
depend on each other (Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from rag_assets.schemas import COMPARISONS
from rag_assets.statistics.intervals import largest_value, number_or_none
from rag_assets.statistics.paired_differences import PairedDifferences
from rag_assets.statistics.paired_tests import (
    ALPHA,
    detectable_difference,
    t_test_p_value,
    wilcoxon_p_value,
)
from rag_assets.statistics.units import (
    SAME,
    Counted,
    Counting,
    Floats,
    Resampling,
    counted_by_split,
)

Pairs = Sequence[tuple[str, str]]
Row = dict[str, object]


def all_pairs(retrievers: Sequence[str], only: Mapping[str, str | None] | None = None) -> Pairs:
    """Return every pair, in the order of the retrievers; ``only`` names the one partner of some."""
    partner = only or {}
    return [
        (a, b)
        for a, b in combinations(retrievers, 2)
        if not {a, b} & {*partner} or a == partner.get(b) or b == partner.get(a)
    ]


def comparisons(
    cells: Mapping[str, pa.Table],
    counting: Counting,
    metric: tuple[str, int],
    resampling: Resampling,
    pairs: Pairs,
) -> pa.Table:
    """Compare pairs of retrievers; together they are the family that Holm's method adjusts.

    A query counts in a pair when both have a value: it is answerable, and neither failed on it.

    Args:
        cells: retriever -> its query metrics, all at one top_k.
        counting: of every query.
        metric: the metric's column, and that top_k.
        resampling: level of the intervals; number and seed of the randomisation test.
        pairs: of keys of ``cells``.
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
) -> Iterator[Row]:
    column, top_k = metric
    values = {name: counted.values(table, column) for name, table in cells.items()}
    paired = PairedDifferences(counted, np.column_stack([values[b] - values[a] for a, b in pairs]))
    inflations = paired.inflations(1 - ALPHA)
    reach = np.array([largest_value(values[a], values[b]) for a, b in pairs])
    low, high = paired.intervals(resampling.confidence, reach)
    p_values = paired.p_values(resampling)
    for number, ((a, b), adjusted) in enumerate(zip(pairs, holm(p_values), strict=True)):
        both = ~np.isnan(paired.values[:, number])
        of_a, of_b, weights = values[a][both], values[b][both], counted.weights[both]
        gained = of_b - of_a
        won, lost = int((gained > SAME).sum()), int((gained < -SAME).sum())
        # Tests are over independent units, and what shared evidence adds to the error counts.
        sums, unit_weights = paired.units.column(number)
        detectable = detectable_difference(sums, unit_weights)
        wider = float(inflations[number]) ** 0.5
        yield {
            "retriever_a": a,
            "retriever_b": b,
            "split": counted.split,
            "metric": column,
            "top_k": top_k,
            "n": int(both.sum()),
            "mean_a": difference(of_a, weights),
            "mean_b": difference(of_b, weights),
            "difference": difference(gained, weights),
            "effect_size": cohens_d(gained, weights),
            "won": won,
            "tied": int(both.sum()) - won - lost,
            "lost": lost,
            "low": number_or_none(low[number]),
            "high": number_or_none(high[number]),
            "p_randomisation": p_values[number],
            "p_adjusted": adjusted,
            "n_clusters": int(sums.size),
            "p_t": t_test_p_value(sums),
            "p_wilcoxon": wilcoxon_p_value(sums, unit_weights),
            "detectable": None if detectable is None else detectable * wider,
        }


def difference(differences: Floats, weights: Floats) -> float | None:
    """Return the weighted mean difference; None without any query."""
    total = math.fsum(weights)
    return math.fsum(differences * weights) / total if total > 0 else None


def cohens_d(differences: Floats, weights: Floats) -> float | None:
    """Return Cohen's d_z: the mean difference over the standard deviation of the differences.

    It is of queries, also where these are clustered. Weighted: s^2 = n / (n - 1) *
    sum(w * (d - m)^2) / sum(w) (Cohen, Statistical Power Analysis, 1988, section 2.3.5). None for
    fewer than two queries; 0 when all differences are 0, None when all are of one other value.
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


def is_significant(row: dict[str, Any]) -> bool:
    """Return whether chance is ruled out in a row: p below 0.05, after Holm where that is known."""
    p = _decisive_p(row)
    return p is not None and p < ALPHA


def _decisive_p(row: dict[str, Any]) -> float | None:
    p: float | None = row["p_adjusted"] if row["p_adjusted"] is not None else row["p_randomisation"]
    return p


def is_tested(comparisons: pa.Table, baseline: str) -> bool:
    """Return whether there is a test of any retriever against the baseline, in any split."""
    return any(
        row["p_randomisation"] is not None
        for row in comparisons.to_pylist()
        if baseline in (row["retriever_a"], row["retriever_b"])
    )


def regressions(comparisons: pa.Table, baseline: str) -> list[str]:
    """Return a sentence for each split and retriever that is worse than the baseline."""
    sentences = []
    for row in comparisons.to_pylist():
        names = (row["retriever_a"], row["retriever_b"])
        if baseline not in names or row["difference"] is None or not is_significant(row):
            continue
        other = names[names[0] == baseline]
        gain = row["difference"] if other == names[1] else -row["difference"]
        p = _decisive_p(row)
        if gain < 0 and p is not None:
            p_value = f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"
            sentences.append(
                f"{other} is worse than {baseline} on {row['metric']}@{row['top_k']} "
                f"({row['split']}) by {-gain:.4f}, p = {p_value}"
            )
    return sentences
