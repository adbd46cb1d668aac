"""Intervals of means: bootstrap, Wilson, what can be detected."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from rag_assets.schemas import INTERVALS
from rag_assets.statistics.intervals import bounded_intervals, intervals, largest_value, wilson
from rag_assets.statistics.paired_tests import detectable_difference, t_test_p_value
from rag_assets.statistics.units import units_of
from tests.statistics.samples import Floats, alone, cell, column, counting

LEVEL = 0.9


def by_metric(table: pa.Table) -> dict[tuple[str, int, str], dict[str, object]]:
    return {(row["split"], row["top_k"], row["metric"]): row for row in table.to_pylist()}


def test_a_row_for_every_cutoff_and_metric() -> None:
    cells = {5: cell([0.0, 0.5, 1.0], **{"precision(rel=2)": [0.2, 0.2, 0.4]}), 1: cell([0, 0, 1])}
    table = intervals(cells, counting(3), LEVEL)
    assert INTERVALS.check(table) == table
    rows = by_metric(table)
    assert list(rows) == [("all", 1, "ndcg"), ("all", 5, "ndcg"), ("all", 5, "precision(rel=2)")]
    row = rows["all", 5, "ndcg"]
    assert (row["n"], row["mean"], row["confidence"]) == (3, 0.5, 0.9)
    assert row["method"] == "Student's with two extreme values over queries"
    assert 0 <= float(str(row["low"])) < 0.5 < float(str(row["high"])) <= 1


def test_nulls_are_not_counted_and_a_single_value_has_no_interval() -> None:
    rows = by_metric(intervals({5: cell([0.5, None], mrr=[None, None])}, counting(2), LEVEL))
    one, none = rows["all", 5, "ndcg"], rows["all", 5, "mrr"]
    assert [one[name] for name in ("n", "mean", "low", "high")] == [1, 0.5, None, None]
    assert [none[name] for name in ("n", "mean", "low", "high")] == [0, None, None, None]


def test_weights_splits_and_clusters() -> None:
    counts = counting(
        6, [1, 1, 2, 1, 3, 0], ["dev"] * 3 + ["test"] * 3, ["a", "a", "b", "c", "d", "e"]
    )
    rows = by_metric(intervals({5: cell([0, 1, 1, 0, 1, 0.7])}, counts, LEVEL))
    assert list(rows) == [("dev", 5, "ndcg"), ("test", 5, "ndcg")]
    assert rows["dev", 5, "ndcg"]["mean"] == 0.75
    assert rows["dev", 5, "ndcg"]["method"] == "Student's with two extreme values over clusters"
    assert (rows["test", 5, "ndcg"]["n"], rows["test", 5, "ndcg"]["mean"]) == (2, 0.75)
    assert rows["test", 5, "ndcg"]["method"] == "Student's with two extreme values over queries"


def sample(n: int, columns: int = 1, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).beta(2, 1, size=(n, columns))


def test_it_is_student_s_interval_of_the_values_and_two_extremes() -> None:
    values = sample(60)
    low, high = bounded_intervals(alone(values), 0.9, 0.0, 1.0)
    longer = [*values[:, 0], 0.0, 1.0]
    other = stats.ttest_1samp(longer, 0.0).confidence_interval(0.9)
    assert (low[0], high[0]) == pytest.approx((other.low, other.high), rel=1e-12)


def lost_by_few(share: float) -> Floats:
    """One system loses a share of 80 questions by all that is possible; 2,000 such samples."""
    return -np.random.default_rng(5).binomial(1, share, size=(80, 2000)).astype(float)


@pytest.mark.parametrize("share", [0.01, 0.03, 0.1])
def test_it_covers_where_few_questions_differ(share: float) -> None:
    """The percentile interval covers .53 and .90 where 1 and 3 % of 80 questions are lost."""
    low, high = bounded_intervals(alone(lost_by_few(share)), 0.95, -1.0, 1.0)
    assert ((low <= -share) & (high >= -share)).mean() >= 0.95
    assert (high - low).min() > 0.05


def test_it_covers_the_true_mean_as_often_as_it_says() -> None:
    low, high = bounded_intervals(alone(sample(50, columns=1000)), 0.95, 0.0, 1.0)
    assert 0.94 <= ((low <= 2 / 3) & (high >= 2 / 3)).mean() <= 0.98


def test_the_interval_of_a_mean_over_clusters_covers_it() -> None:
    """Queries of a document share most of their value: single queries would claim too much."""
    rng = np.random.default_rng(3)
    documents = 0.3 * rng.normal(size=(40, 500))
    values = np.repeat(documents, 5, axis=0) + 0.1 * rng.normal(size=(200, 500))
    names = [f"d{number:02}" for number in np.repeat(np.arange(40), 5)]
    low, high = bounded_intervals(units_of(values, np.ones(200), names), 0.95, -1, 1)
    assert ((low <= 0) & (high >= 0)).mean() >= 0.94
    low, high = bounded_intervals(alone(values), 0.95, -1, 1)
    assert ((low <= 0) & (high >= 0)).mean() < 0.75


def test_few_equal_values_leave_doubt_and_no_bound_is_impossible() -> None:
    low, high = bounded_intervals(alone([1.0] * 4), 0.95, 0.0, 1.0)
    assert low[0] < 0.5
    assert high[0] == 1.0
    low, high = bounded_intervals(alone([0.3] * 4), 0.95, -1.0, 1.0)
    assert -1.0 <= low[0] < 0 < 0.3 < high[0] <= 1.0


def test_above_one_the_largest_value_seen_is_the_highest() -> None:
    assert largest_value(np.array([0.2, np.nan])) == 1.0
    assert largest_value(np.array([0.2, np.nan]), np.array([4.5])) == 4.5


@pytest.mark.parametrize("values", [[], [0.5], [0.5, float("nan")], [float("nan")] * 4])
def test_without_two_values_there_is_no_interval(values: list[float]) -> None:
    low, high = bounded_intervals(alone(values), 0.95, 0.0, 1.0)
    assert np.isnan(low[0])
    assert np.isnan(high[0])


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (0, 20), (7, 20), (95, 100), (3, 3)])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_equals_scipy(successes: int, n: int, level: float) -> None:
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert wilson(successes / n, n, level) == pytest.approx(tuple(expected), abs=1e-12)


def test_the_share_itself_is_always_inside() -> None:
    assert wilson(0.0, 0) == (0.0, 1.0)
    for n in range(1, 60):
        for share in (0.0, 1.0):
            low, high = wilson(share, n)
            assert 0 <= low <= share <= high <= 1


def test_such_a_difference_is_found_four_times_in_five() -> None:
    noise = np.random.default_rng(1).normal(0, 0.3, size=(50, 2000))
    detectable = (1.96 + 0.84) * 0.3 / np.sqrt(50)
    units = alone(noise + detectable)
    found = np.array([t_test_p_value(units.sums[:, number]) for number in range(2000)])
    assert (found <= 0.05).mean() == pytest.approx(0.8, abs=0.04)
    claimed = [detectable_difference(*units.column(number)) for number in range(2000)]
    assert np.mean(np.array(claimed, dtype=np.float64)) == pytest.approx(detectable, rel=0.03)


def test_the_formula_for_five_queries() -> None:
    """(t of 97.5 % + t of 80 %) * s / sqrt(n), with n - 1 degrees of freedom."""
    values = np.array([0.1, 0.3, -0.2, 0.4, 0.0])
    factor = stats.t.ppf(0.975, 4) + stats.t.ppf(0.8, 4)
    found = detectable_difference(*column(alone(values)))
    assert found == pytest.approx(factor * values.std(ddof=1) / np.sqrt(5))


@pytest.mark.parametrize("values", [[], [0.3], [0.3, 0.3], [0.0] * 5])
def test_without_spread_nothing_can_be_said(values: list[float]) -> None:
    assert detectable_difference(*column(alone(values))) is None
