"""Means that a few labels calibrate, also of another time: golden numbers, coverage, edges."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from rag_assets.statistics.calibration import (
    HUMAN_DIFFERENCE,
    HUMAN_MEAN,
    POWERED_DIFFERENCE,
    POWERED_MEAN,
    ROGAN_GLADEN,
    calibrated_difference,
    calibrated_mean,
    calibration,
    prediction_powered,
    rogan_gladen,
)
from rag_assets.statistics.intervals import wilson
from rag_assets.statistics.paired_tests import spread
from rag_assets.statistics.units import units_of

_SCRIPT = Path(__file__).parents[2] / "benchmarks" / "judge_calibration.py"

simulations: Any = SimpleNamespace(**runpy.run_path(str(_SCRIPT)))
"""What the script defines, by name."""

Floats = npt.NDArray[np.float64]

LABELS = np.array([1, 1, 0, 1, 0, 1, 1, 0, 1, 1], dtype=np.float64)
OWN = np.array([1, 1, 1, 1, 0, 1, 0, 0, 1, 1], dtype=np.float64)
OTHERS = np.repeat([1.0, 0.0], [75, 25])


@pytest.mark.parametrize(
    ("weight", "value", "error", "its_weight"),
    [
        (0.0, 0.7, 0.14491376746, 0.0),
        (1.0, 0.75, 0.14790199458, 1.0),
        (None, 0.7261106272, 0.12549690209, 0.5222125436),
    ],
)
def test_the_numbers_of_ppi_py(
    weight: float | None, value: float, error: float, its_weight: float
) -> None:
    units = calibration(LABELS, OWN, OTHERS, None, None)
    found = prediction_powered(units, weight=weight, ddof=0)
    assert found == pytest.approx((value, error, its_weight), abs=1e-9)


def sample(n: int, n_others: int, seed: int, truth: float = 0.7) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    answers = simulations.answers_of(truth, n + n_others, rng)
    verdicts = simulations.verdicts_of(answers, 0.9, 0.8, rng)
    return answers[:n], verdicts[:n], verdicts[n:]


def test_the_arithmetic_of_an_interval() -> None:
    """Written out: two disagreements, variances by n - 1, Student's quantile of 59 degrees."""
    labels, own, others = sample(60, 500, 1)
    y, f = np.append(labels, [1, 0]), np.append(own, [0, 1])
    pooled = np.append(f, others)
    covariance = np.mean((y - y.mean()) * (f - f.mean()))
    weight = covariance / ((1 + 62 / 500) * pooled.var(ddof=1))
    centre = weight * others.mean() + (y - weight * f).mean()
    variance = weight**2 * others.var(ddof=1) / 500 + (y - weight * f).var(ddof=1) / 62
    half = 2.0009953780882674 * np.sqrt(variance)
    found = calibrated_mean(labels, own, others)
    assert found.weight == pytest.approx(weight)
    assert found.low == pytest.approx(centre - half)
    assert found.high == pytest.approx(centre + half)
    assert found.value == pytest.approx(weight * others.mean() + (labels - weight * own).mean())
    assert (found.n_labels, found.method) == (60, POWERED_MEAN)


@pytest.mark.parametrize("row", simulations.ROWS, ids=str)
def test_coverage_over_all_draws(row: object) -> None:
    """Of n = 100 labels, as the table has them; its two smaller n with their own."""
    for n in sorted({100, row.n}):  # type: ignore[attr-defined]
        tallies = simulations.mean_coverage(row._replace(n=n), 500)  # type: ignore[attr-defined]
        # Two standard errors of 500 draws below .95.
        assert tallies["ours"].coverage >= 0.93
        assert len(tallies["ours"].held) == 500
        if n >= 100:
            assert tallies["ours"].width < tallies["Wilson"].width


def test_a_question_of_weight_2_counts_as_a_cluster_of_two_like_it() -> None:
    labels, own, others = sample(60, 200, 3)
    weights = np.random.default_rng(4).integers(1, 4, 260).astype(np.float64)
    twice = weights.astype(int)
    names = [f"q{number:03}" for number in np.repeat(np.arange(260), twice)]
    n = int(weights[:60].sum())
    repeated = (np.repeat(labels, twice[:60]), np.repeat(own, twice[:60]))
    clustered = calibrated_mean(
        *repeated, np.repeat(others, twice[60:]), clusters=(names[:n], names[n:])
    )
    weighted = calibrated_mean(labels, own, others, weights=(weights[:60], weights[60:]))
    assert clustered._replace(n_labels=60) == pytest.approx(weighted)
    assert clustered.n_labels == n


@pytest.mark.parametrize("n", [0, 1, 10, 49])
def test_under_50_labels_people_alone_are_believed(n: int) -> None:
    labels, own, others = sample(n, 300, n)
    found = calibrated_mean(labels, own, others)
    if n == 0:
        assert found[:4] == (None, None, None, 0)
        assert found.reason == "there is no human label"
        return
    assert found[:3] == pytest.approx((labels.mean(), *wilson(labels.mean(), n)))
    assert (found.method, found.weight, found.n_labels) == (HUMAN_MEAN, 0.0, n)
    assert calibrated_mean(*sample(50, 300, n)).method == POWERED_MEAN


def test_forty_clusters_are_under_50_however_many_labels_they_hold() -> None:
    labels, own, others = sample(200, 300, 5)
    clusters = [f"c{i // 5:03}" for i in range(200)], [f"d{i}" for i in range(300)]
    found = calibrated_mean(labels, own, others, clusters=clusters)
    assert (found.method, found.n_labels) == (HUMAN_MEAN, 200)
    assert found[:3] == pytest.approx((labels.mean(), *wilson(labels.mean(), 40)))


@pytest.mark.parametrize("says", [1.0, np.nan])
def test_a_judge_that_says_nothing_has_no_weight(says: float) -> None:
    labels, own, others = sample(100, 400, 7)
    found = calibrated_mean(labels, np.full_like(own, says), np.full_like(others, says))
    assert found.value == pytest.approx(labels.mean())
    # All that the two disagreements brought is a little covariance.
    assert found.weight < 0.05
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low == pytest.approx(np.subtract(*wilson(0.7, 100)[::-1]), abs=0.03)


def test_the_mean_of_the_verdicts_stands_for_a_missing_one() -> None:
    labels, own, others = sample(60, 100, 10)
    own[:5], others[:20] = np.nan, np.nan
    mean = np.nanmean(np.concatenate([own, others]))
    filled = np.nan_to_num(own, nan=mean), np.nan_to_num(others, nan=mean)
    assert calibrated_mean(labels, own, others) == pytest.approx(calibrated_mean(labels, *filled))


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_labels_of_one_kind_leave_room_for_the_other(label: float) -> None:
    found = calibrated_mean(np.full(60, label), np.full(60, label), np.full(500, label))
    assert found.value == pytest.approx(label)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.high <= 1
    assert found.high - found.low > 0.02


def given(positive: int, n: int) -> Floats:
    """Verdicts, so many of them positive."""
    return np.repeat([1.0, 0.0], [positive, n - positive])


BALANCED = given(100, 200)


def test_hand_arithmetic_of_rogan_and_gladen() -> None:
    """Share .78 of 1,000, sensitivity 90 of 100, specificity 85 of 100."""
    own = np.concatenate([given(90, 100), given(15, 100)])
    found = rogan_gladen(BALANCED, own, given(780, 1000))
    assert found.value == pytest.approx(0.84, abs=1e-9)
    shares = [(781 / 1002, 1002, 1.0), (91 / 102, 102, 0.84**2), (16 / 102, 102, 0.16**2)]
    half = 1.959963985 * sum(f * q * (1 - q) / n for q, n, f in shares) ** 0.5 / 0.75
    assert found[1:3] == pytest.approx((0.84 - half, 0.84 + half), abs=1e-9)
    assert half == pytest.approx(0.0771, abs=1e-4)
    assert found[3:] == (200, ROGAN_GLADEN, 1.0, None)


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_a_judge_that_never_erred_on_few_labels_may_err(n: int) -> None:
    """A width of 0 would claim what so few labels cannot show."""
    labels = np.repeat([1.0, 0.0], n)
    found = rogan_gladen(labels, labels, np.zeros(50))
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high is not None
    assert found.high > 1.96 / (n + 2) * (n / (n + 2)) ** 0.5


def test_it_covers_where_the_share_has_moved_and_a_calibrated_mean_does_not() -> None:
    tallies = simulations.moved_prevalence(500)
    assert tallies["Rogan-Gladen"].coverage >= 0.93
    assert tallies["calibrated_mean"].coverage < 0.2


NOTHING = np.array([])
BOTH = "labels of both kinds, and verdicts, are needed"


@pytest.mark.parametrize(
    ("labels", "own", "others", "reason"),
    [
        (
            *(BALANCED, np.concatenate([given(60, 100), given(41, 100)]), given(500, 1000)),
            "sensitivity + specificity - 1 is 0.19; 0.2 is needed",
        ),
        (np.zeros(50), np.ones(50), np.ones(10), BOTH),
        (np.ones(50), np.ones(50), np.ones(10), BOTH),
        (BALANCED, BALANCED, NOTHING, BOTH),
        (NOTHING, NOTHING, np.ones(3), "there is no human label"),
    ],
)
def test_what_rogan_and_gladen_refuse(
    labels: Floats, own: Floats, others: Floats, reason: str
) -> None:
    found = rogan_gladen(labels, own, others)
    assert (*found[:3], found.reason) == (None, None, None, reason)


def test_a_judge_that_just_tells_right_from_wrong_is_allowed() -> None:
    own = np.concatenate([given(60, 100), given(40, 100)])
    assert rogan_gladen(BALANCED, own, given(500, 1000)).reason is None


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
    found = simulations.difference_coverage(simulations.drawn_pairs(pair, 200, DRAWS), truth)
    tallies = found.tallies
    assert found.without_interval == 0
    assert tallies["shown"].coverage >= 0.93
    assert tallies["shown"].discoveries >= 1.3 * tallies["human"].discoveries


def test_the_arithmetic_of_labels_alone_is_the_t_test_of_one_sample() -> None:
    labels = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], 80)
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
