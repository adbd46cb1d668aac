from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rag_assets.statistics import units
from rag_assets.statistics.intervals import bounded_intervals, largest_value, resampled_means
from rag_assets.statistics.units import Resampling, on_grid, units_of
from tests.statistics.samples import Floats, alone

QUICK = Resampling(resamples=2000)


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


def test_higher_confidence_and_a_larger_variance_are_wider() -> None:
    units = alone(sample(30))
    narrow, wide, inflated = (
        np.concatenate(bounded_intervals(units, level, 0.0, 1.0, inflation))
        for level, inflation in ((0.8, 1.0), (0.99, 1.0), (0.8, 4.0))
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert np.diff(inflated) == pytest.approx(2 * np.diff(narrow))


def test_few_equal_values_leave_doubt_and_no_bound_is_impossible() -> None:
    low, high = bounded_intervals(alone([1.0] * 4), 0.95, 0.0, 1.0)
    assert low[0] < 0.5
    assert high[0] == 1.0
    low, high = bounded_intervals(alone([0.3] * 4), 0.95, -1.0, 1.0)
    assert -1.0 <= low[0] < 0 < 0.3 < high[0] <= 1.0


def test_above_one_the_largest_value_seen_is_the_highest() -> None:
    assert largest_value(np.array([0.2, np.nan])) == 1.0
    assert largest_value(np.array([0.2, np.nan]), np.array([4.5])) == 4.5


@pytest.mark.parametrize("block", [1, 100, 7777])
def test_the_size_of_the_blocks_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    queries = alone(sample(31))
    whole = resampled_means(queries, QUICK).tobytes()
    monkeypatch.setattr(units, "BLOCK", block)
    assert resampled_means(queries, QUICK).tobytes() == whole


def test_blocks_hold_about_so_many_numbers() -> None:
    quarter = units.BLOCK // 4
    assert list(units.blocks(10, quarter)) == [(0, 4), (4, 8), (8, 10)]
    assert list(units.blocks(3, 4 * units.BLOCK)) == [(0, 1), (1, 2), (2, 3)]
    assert list(units.blocks(3, 0)) == [(0, 3)]


def test_sums_on_the_grid_are_the_same_in_any_order() -> None:
    values = sample(5000)
    exact = on_grid(values, values.sum(axis=0))[:, 0]
    assert np.abs(exact - values[:, 0]).max() < 1e-12
    sums = {float(sum(np.random.default_rng(seed).permutation(exact))) for seed in range(20)}
    assert len(sums) == 1


@pytest.mark.parametrize("values", [[], [0.5], [0.5, float("nan")], [float("nan")] * 4])
def test_without_two_values_there_is_no_interval(values: list[float]) -> None:
    low, high = bounded_intervals(alone(values), 0.95, 0.0, 1.0)
    assert np.isnan(low[0])
    assert np.isnan(high[0])
