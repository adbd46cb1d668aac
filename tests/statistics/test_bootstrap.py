from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rag_assets.statistics import intervals, resampling
from rag_assets.statistics.intervals import bootstrap_intervals
from rag_assets.statistics.resampling import Resampling, on_grid
from rag_assets.statistics.units import units_of
from tests.statistics.samples import Floats, alone

QUICK = Resampling(resamples=2000)


def sample(n: int, columns: int = 1, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).beta(2, 1, size=(n, columns))


def test_close_to_the_interval_of_scipy() -> None:
    values = sample(60)
    low, high = bootstrap_intervals(alone(values), Resampling())
    other = stats.bootstrap(
        (values[:, 0],), np.mean, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert low[0] == pytest.approx(other.low, abs=0.004)
    assert high[0] == pytest.approx(other.high, abs=0.004)


def test_it_covers_the_true_mean_as_often_as_it_says() -> None:
    low, high = bootstrap_intervals(alone(sample(50, columns=1000)), QUICK)
    covered = ((low <= 2 / 3) & (high >= 2 / 3)).mean()
    assert 0.92 <= covered <= 0.97


def test_the_interval_of_a_mean_over_clusters_covers_it() -> None:
    """Queries of a document share most of their value: single queries would claim too much."""
    rng = np.random.default_rng(3)
    documents = rng.normal(size=(40, 500))
    values = np.repeat(documents, 5, axis=0) + 0.3 * rng.normal(size=(200, 500))
    names = [f"d{number:02}" for number in np.repeat(np.arange(40), 5)]
    low, high = bootstrap_intervals(units_of(values, np.ones(200), names), QUICK)
    assert 0.90 <= ((low <= 0) & (high >= 0)).mean() <= 0.97
    low, high = bootstrap_intervals(alone(values), QUICK)
    assert ((low <= 0) & (high >= 0)).mean() < 0.75


def test_higher_confidence_is_wider() -> None:
    units = alone(sample(30))
    narrow, wide = (
        np.concatenate(bootstrap_intervals(units, Resampling(confidence, 2000)))
        for confidence in (0.8, 0.99)
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_all_columns_see_the_same_resamples() -> None:
    """So the interval of a difference is that of the pairs, and alone as beside others."""
    values = sample(30, columns=3)
    together = bootstrap_intervals(alone(values), QUICK)
    for number in range(3):
        single = bootstrap_intervals(alone(values[:, number]), QUICK)
        assert [bound[0] for bound in single] == [bound[number] for bound in together]
    shifted = bootstrap_intervals(alone(values[:, 0] + 0.25), QUICK)
    assert shifted[0][0] == pytest.approx(together[0][0] + 0.25)


def test_the_seed_decides() -> None:
    units = alone(sample(30))
    one, same = (bootstrap_intervals(units, Resampling(seed=5, resamples=500)) for _ in range(2))
    assert [a.tobytes() for a in one] == [b.tobytes() for b in same]
    other = bootstrap_intervals(units, Resampling(seed=6, resamples=500))
    assert one[0][0] != other[0][0]


@pytest.mark.parametrize("block", [1, 100, 7777])
def test_the_size_of_the_blocks_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    units = alone(sample(31))
    whole = bootstrap_intervals(units, QUICK)
    monkeypatch.setattr(resampling, "BLOCK", block)
    monkeypatch.setattr(intervals, "_CACHED_COUNTS", 0)  # nothing that was drawn in other blocks
    assert [a.tobytes() for a in bootstrap_intervals(units, QUICK)] == [b.tobytes() for b in whole]


def test_blocks_hold_about_so_many_numbers() -> None:
    quarter = resampling.BLOCK // 4
    assert list(resampling.blocks(10, quarter)) == [(0, 4), (4, 8), (8, 10)]
    assert list(resampling.blocks(3, 4 * resampling.BLOCK)) == [(0, 1), (1, 2), (2, 3)]
    assert list(resampling.blocks(3, 0)) == [(0, 3)]


def test_sums_on_the_grid_are_the_same_in_any_order() -> None:
    values = sample(5000)
    exact = on_grid(values, values.sum(axis=0))[:, 0]
    assert np.abs(exact - values[:, 0]).max() < 1e-12
    sums = {float(sum(np.random.default_rng(seed).permutation(exact))) for seed in range(20)}
    assert len(sums) == 1


def test_weights_count_in_the_mean() -> None:
    values = np.array([[0.0]] * 20 + [[1.0]] * 20)
    names = [f"q{number:02}" for number in range(40)]
    weights = np.array([1.0] * 20 + [3.0] * 20)
    low, high = bootstrap_intervals(units_of(values, weights, names), QUICK)
    assert low[0] < 0.75 < high[0]
    assert low[0] > 0.55


@pytest.mark.parametrize("values", [[], [0.5], [0.5, float("nan")], [float("nan")] * 4])
def test_without_two_values_there_is_no_interval(values: list[float]) -> None:
    low, high = bootstrap_intervals(alone(values), QUICK)
    assert np.isnan(low[0])
    assert np.isnan(high[0])


def test_equal_values_leave_no_doubt() -> None:
    low, high = bootstrap_intervals(alone([0.3] * 10), QUICK)
    assert low[0] == high[0] == pytest.approx(0.3)


def test_few_values_among_many_queries_are_averaged_where_they_are_drawn() -> None:
    values = np.full(50, np.nan)
    values[:3] = [0.2, 0.4, 0.9]
    low, high = bootstrap_intervals(alone(values), QUICK)
    assert 0.2 <= low[0] < 0.5 < high[0] <= 0.9
