"""Means that a few labels calibrate: golden numbers, coverage over all draws, and the edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from rag_assets.statistics.calibration import (
    HUMAN_MEAN,
    POWERED_MEAN,
    calibrated_mean,
    calibration,
    prediction_powered,
)
from rag_assets.statistics.intervals import wilson
from tests.statistics.judge_simulations import simulations

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


@pytest.mark.parametrize("n", [1, 10, 49])
def test_under_50_labels_people_alone_are_believed(n: int) -> None:
    labels, own, others = sample(n, 300, n)
    found = calibrated_mean(labels, own, others)
    assert found[:3] == pytest.approx((labels.mean(), *wilson(labels.mean(), n)))
    assert (found.method, found.weight, found.n_labels) == (HUMAN_MEAN, 0.0, n)
    assert calibrated_mean(*sample(50, 300, n)).method == POWERED_MEAN


def test_forty_clusters_are_under_50_however_many_labels_they_hold() -> None:
    labels, own, others = sample(200, 300, 5)
    clusters = [f"c{i // 5:03}" for i in range(200)], [f"d{i}" for i in range(300)]
    found = calibrated_mean(labels, own, others, clusters=clusters)
    assert (found.method, found.n_labels) == (HUMAN_MEAN, 200)
    assert found[:3] == pytest.approx((labels.mean(), *wilson(labels.mean(), 40)))


def test_without_a_label_there_is_no_number() -> None:
    nothing = np.array([])
    found = calibrated_mean(nothing, nothing, OTHERS)
    assert found[:4] == (None, None, None, 0)
    assert found.reason == "there is no human label"


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
