from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rag_assets.statistics.paired_tests import detectable_difference, t_test_p_value
from tests.statistics.samples import alone, column


def test_such_a_difference_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.3, size=(50, 2000))
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
