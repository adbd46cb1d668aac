from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rag_assets.statistics.paired_tests import t_test_p_value
from rag_assets.statistics.units import units_of
from tests.statistics.samples import Floats, alone, column


@pytest.mark.parametrize("n", [2, 3, 20, 300])
def test_equals_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.random(n), rng.random(n) + 0.1
    assert t_test_p_value(column(alone(b - a))[0]) == pytest.approx(stats.ttest_rel(b, a).pvalue)


def null_p_values(weights: Floats, rng: np.random.Generator, n_columns: int = 4000) -> Floats:
    names = [f"q{number:02}" for number in range(weights.size)]
    units = units_of(rng.normal(size=(weights.size, n_columns)), weights, names)
    found = [t_test_p_value(units.sums[:, number]) for number in range(n_columns)]
    return np.array(found, dtype=np.float64)


def test_p_is_uniform_where_there_is_no_difference_and_weights_differ() -> None:
    rng = np.random.default_rng(6)
    p_values = null_p_values(rng.uniform(1, 4, 60), rng)
    assert stats.kstest(p_values, "uniform").pvalue > 0.001
    assert (p_values <= 0.05).mean() == pytest.approx(0.05, abs=0.012)


@pytest.mark.parametrize(
    ("values", "p"),
    [([], None), ([0.3], None), ([0.3, 0.3], None), ([0.0] * 5, 1.0), ([1e-17, 0.0], 1.0)],
)
def test_degenerate_differences(values: list[float], p: float | None) -> None:
    assert t_test_p_value(column(alone(values))[0]) == p
