"""Drift of scores, and repeated looks at an anchor."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rag_assets.checks.score_drift import BINS, stability
from rag_assets.statistics.paired_differences import (
    PairedDifferences,
    fewest_falls,
    look_level,
    look_p_values,
)
from rag_assets.statistics.units import Counted, Floats, Resampling

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


@pytest.mark.parametrize(("n_old", "n_new"), [(60, 60), (200, 50), (1_000, 1_000)])
def test_chance_is_exceeded_as_often_as_it_says(n_old: int, n_new: int) -> None:
    """Same distribution on both sides: near 5%, and never much more often."""
    random = np.random.default_rng(3)
    found = [stability(random.normal(size=n_old), random.normal(size=n_new)) for _ in range(1_000)]
    share = np.mean([one.psi > one.chance for one in found])
    assert 0.02 <= share <= 0.07


BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "gate_looks.py"


def paired(values: Floats) -> PairedDifferences:
    names = tuple(f"q{number:02}" for number in range(len(values)))
    return PairedDifferences(Counted("all", names, np.ones(len(names)), names), values)


@pytest.fixture(scope="module")
def looks() -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARK))


def test_few_null_histories_ever_fail(looks: dict[str, Any]) -> None:
    """500 years without a drop: about 5 % of them fail, and 64 % as the gate was before.

    The bound is three standard errors above 5 %; 2,000 years are in the benchmark.
    """
    for world in (looks["World"]("free"), looks["World"]("clusters", cluster=3)):
        found = looks["outcomes"](world, 500, seed=20)
        assert found["gate"].any(axis=1).mean() <= 0.05 + 3 * (0.05 * 0.95 / 500) ** 0.5
        assert found["before"].any(axis=1).mean() > 0.5


def test_the_price_is_power(looks: dict[str, Any]) -> None:
    """A drop of .03 on 216 questions: 27 % at each look, and 71 % at the level .05."""
    found = looks["outcomes"](looks["World"]("drop", drop=0.03), 40, seed=2)
    # Three standard errors of 800 looks.
    assert found["gate"].mean() == pytest.approx(0.27, abs=0.047)
    assert found["before"].mean() == pytest.approx(0.71, abs=0.048)


def test_nights_that_repeat_a_state_are_no_looks(looks: dict[str, Any]) -> None:
    assert looks["nights_tested"](np.random.default_rng(3)) == 20


def test_p_is_finer_near_the_level_alone() -> None:
    """Of 60 questions that all fell no pattern is as extreme: p is 1 / (patterns + 1)."""
    values = np.hstack([np.full((60, 1), -1.0), np.full((60, 1), 1.0)])
    values[:4, 0] = [0.5, 0.5, 0.25, 0.25]  # not all fell: then p would be 2^-60
    assert look_level(0.05) == 0.0025
    for alpha, finest in ((0.05, 40_000), (1e-4, 1_000_000)):
        found = look_p_values(paired(values), Resampling(resamples=1000), alpha)
        assert found == [1 / (finest + 1), 1.0]


def test_copies_of_one_search_are_one_test() -> None:
    """Nine of ten questions fall: p is 2^-9, of one retriever and of three that do the same."""
    fell = np.array([[-1.0]] * 9 + [[0.0]])
    for copies in (1, 3):
        values = np.repeat(fell, copies, axis=1)
        assert look_p_values(paired(values), Resampling(), 0.05) == [2**-9] * copies
    assert fewest_falls(0.05) == 9
    assert 2.0 ** -fewest_falls(0.05) < look_level(0.05) < 2.0 ** -(fewest_falls(0.05) - 1)


def test_systems_that_have_nothing_in_common_share_the_level() -> None:
    """Of two with other questions p is nearly doubled, as Bonferroni's; exactly 2p - p^2 here."""
    values = np.zeros((12, 2))
    values[:6, 0], values[6:, 1] = -1.0, -1.0
    p = 2.0**-6
    assert look_p_values(paired(values), Resampling(), 0.05) == [2 * p - p**2] * 2
