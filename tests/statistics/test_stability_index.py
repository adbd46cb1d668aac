"""The population stability index: by hand, its properties, and what chance makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rag_assets.statistics.score_drift import BINS, stability

VALUES = arrays.arrays(
    np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6) | st.just(math.nan)
)


def test_by_hand() -> None:
    """Forty old values in four bins of ten; the new ones all lie in the first."""
    found = stability(np.arange(40.0), np.zeros(40))
    assert found.edges.tolist() == [9, 19, 29]
    assert found.old.tolist() == [10, 10, 10, 10]
    assert found.new.tolist() == [40, 0, 0, 0]
    was, first, other = 10.5 / 42, 40.5 / 42, 0.5 / 42
    by_hand = (first - was) * math.log(first / was) + 3 * (other - was) * math.log(other / was)
    assert found.psi == pytest.approx(by_hand)
    # 7.8147 is the 95% quantile of chi-square with 3 degrees of freedom, as tables have it.
    assert found.chance == pytest.approx(7.8147 / 20, abs=1e-4)


@given(VALUES, VALUES)
def test_properties(old: np.ndarray, new: np.ndarray) -> None:
    found = stability(old, new)
    assert found.psi >= 0
    assert math.isfinite(found.psi)
    assert (found.old.sum(), found.new.sum()) == (old.size, new.size)
    assert len(found.old) == len(found.new) <= BINS + 1
    assert np.all(np.diff(found.edges) > 0)
    # An order of the values, and a scale of them, is no drift.
    assert stability(old[::-1], new[::-1]).psi == found.psi
    assert stability(old * 2, new * 2).psi == found.psi


@given(VALUES)
def test_nothing_changed(values: np.ndarray) -> None:
    assert stability(values, values).psi == 0


def test_nothing_retrieved_is_a_bin_of_its_own() -> None:
    old, new = np.arange(40.0), np.arange(40.0)
    new[:20] = np.nan
    found = stability(old, new)
    assert found.old.tolist() == [10, 10, 10, 10, 0]
    assert found.new.tolist() == [0, 0, 10, 10, 20]
    assert found.psi > 1
    nothing = np.full(30, np.nan)
    assert stability(nothing, nothing).psi == 0
    assert stability(nothing, old).psi > 1


def test_equal_values_share_a_bin() -> None:
    assert stability(np.ones(50), np.ones(50)).edges.tolist() == [1]
    assert stability(np.ones(50), np.full(50, 2.0)).psi > 1


@pytest.mark.parametrize(("n_old", "n_new"), [(60, 60), (200, 50), (1_000, 1_000)])
def test_chance_is_exceeded_as_often_as_it_says(n_old: int, n_new: int) -> None:
    """Same distribution on both sides: near 5%, and never much more often."""
    random = np.random.default_rng(3)
    found = [stability(random.normal(size=n_old), random.normal(size=n_new)) for _ in range(1_000)]
    share = np.mean([one.psi > one.chance for one in found])
    assert 0.02 <= share <= 0.07
