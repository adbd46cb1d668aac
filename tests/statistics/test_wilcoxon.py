from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rag_assets.statistics.paired_tests import wilcoxon_p_value
from tests.statistics.samples import alone, column


@pytest.mark.parametrize("n", [1, 5, 30, 200])
def test_equals_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(0.2, 1, n)
    expected = stats.wilcoxon(values).pvalue
    assert wilcoxon_p_value(*column(alone(values))) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(12))
def test_a_few_ties_and_zeros_are_exact_as_in_scipy(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    values = drawn.choice([-2.0, -1.0, 0.0, 1.0, 1.0, 2.5], drawn.integers(1, 8))
    values[0] = 1.0
    expected = stats.wilcoxon(values, zero_method="pratt").pvalue
    assert wilcoxon_p_value(*column(alone(values))) == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([-1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 2.0]), min_size=14, max_size=90))
def test_many_units_have_the_bits_of_scipy(drawn: list[float]) -> None:
    values = np.array([*drawn, 1.0, 1.0])
    expected = stats.wilcoxon(values, zero_method="pratt").pvalue
    assert wilcoxon_p_value(*column(alone(values))) == expected


@pytest.mark.parametrize(
    ("values", "p"),
    [([], None), ([0.3], 1.0), ([0.3, 0.3], 0.5), ([0.0] * 5, 1.0), ([0.1 + 0.2 - 0.3] * 2, 1.0)],
)
def test_degenerate_differences(values: list[float], p: float | None) -> None:
    assert wilcoxon_p_value(*column(alone(values))) == p
