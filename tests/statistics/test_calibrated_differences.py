"""Paired differences that a few labels calibrate, and a judge that likes one system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rag_assets.statistics.calibration import (
    HUMAN_DIFFERENCE,
    POWERED_DIFFERENCE,
    calibrated_difference,
)
from rag_assets.statistics.paired_tests import spread
from rag_assets.statistics.units import units_of
from tests.statistics.judge_simulations import simulations

DRAWS = 500


@pytest.mark.parametrize("pair", [p for p in simulations.PAIRS if p.n == 100], ids=str)
def test_coverage(pair: object) -> None:
    """Of the intervals that are shown, and of all draws."""
    draws = simulations.simulated_pairs(pair, DRAWS)
    found = simulations.difference_coverage(draws, pair.gain)  # type: ignore[attr-defined]
    assert len(found.tallies["ours"].held) == DRAWS
    assert found.tallies["ours"].coverage >= 0.93
    if found.without_interval < 0.5:
        assert found.tallies["shown"].coverage >= 0.93


def test_a_judge_that_likes_one_of_two_equal_systems_raises_no_alarms() -> None:
    liked = simulations.Pair(0.7, 0.0, 0.9, 0.8, 0.2, 100, 0.5)
    found = simulations.difference_coverage(simulations.simulated_pairs(liked, 1000), 0.0)
    assert found.tallies["naive"].discoveries >= 0.9
    assert found.tallies["shown"].discoveries <= 0.065  # .05 and two standard errors of it


@pytest.mark.real_data
def test_two_published_systems(shared_data: Callable[[str], Path]) -> None:
    """SQuAD: label = official exact match, judge = the answer shares a word with a gold one."""
    shared_data("squad_predictions")
    pair = simulations.squad_pair(shared_data("squad_dev_v2").parent)
    assert pair.labels.size == 5928
    truth = float(pair.labels.mean())
    assert truth == pytest.approx(0.0449, abs=5e-5)
    found = simulations.difference_coverage(simulations.drawn_pairs(pair, 200, 1000), truth)
    tallies = found.tallies
    assert found.without_interval == 0
    assert tallies["shown"].coverage >= 0.93
    assert tallies["shown"].discoveries >= 1.3 * tallies["human"].discoveries


def test_the_arithmetic_of_labels_alone_is_the_t_test_of_one_sample() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice([-1.0, 0.0, 1.0], 80)
    found = calibrated_difference(labels, np.zeros(80), np.zeros(300))
    interval = stats.ttest_1samp(labels, 0).confidence_interval()
    assert found[:3] == pytest.approx((labels.mean(), *interval))
    assert (found.method, found.weight, found.reason) == (HUMAN_DIFFERENCE, 0.0, None)


def test_clusters_and_weights_are_those_of_a_ratio() -> None:
    """Labels alone, of clusters that hold unequal weights: Cochran's error of sum(S) / sum(W)."""
    rng = np.random.default_rng(1)
    labels, weights = rng.choice([-1.0, 0.0, 1.0], 120), rng.uniform(0.5, 3, 120)
    names = [f"c{number:02}" for number in rng.integers(0, 40, 120)]
    found = calibrated_difference(
        labels,
        np.zeros(120),
        np.zeros(50),
        clusters=(names, [f"u{number}" for number in range(50)]),
        weights=(weights, np.ones(50)),
    )
    units = units_of(labels[:, None], weights, names)
    expected = spread(*units.column(0))
    assert expected is not None
    half = stats.t.ppf(0.975, expected.n_units - 1) * expected.error
    assert found[:3] == pytest.approx((expected.mean, expected.mean - half, expected.mean + half))


@pytest.mark.parametrize(("n_different", "shown"), [(0, False), (1, False), (9, False), (10, True)])
def test_fewer_than_ten_differences_show_no_interval(n_different: int, shown: bool) -> None:
    labels = np.zeros(200)
    labels[:n_different] = np.resize([1.0, 1.0, -1.0], n_different)
    found = calibrated_difference(labels, labels, np.resize([0.0, 0.0, 1.0, -1.0], 500))
    assert found.value is not None
    assert (found.low is not None) == (found.high is not None) == shown
    assert (found.reason is None) == shown
    if not shown:
        verb = "label differs" if n_different == 1 else "labels differ"
        assert str(found.reason).startswith(f"only {n_different} {verb} between the two")
    assert found.method == (POWERED_DIFFERENCE if n_different else HUMAN_DIFFERENCE)


def test_the_interval_is_cut_to_what_a_difference_can_be() -> None:
    """Eleven of twelve won: Student's interval alone would reach 1.10."""
    labels = np.array([1.0] * 11 + [0.0])
    found = calibrated_difference(labels, np.full(12, np.nan), np.array([]))
    assert found.high == 1.0
    assert found.low == pytest.approx(stats.ttest_1samp(labels, 0).confidence_interval().low)
