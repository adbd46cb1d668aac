"""Verdicts corrected with labels of another time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from rag_assets.statistics.calibration import ROGAN_GLADEN, rogan_gladen
from tests.statistics.judge_simulations import simulations

Floats = npt.NDArray[np.float64]


def given(positive: int, n: int) -> Floats:
    """Verdicts, so many of them positive."""
    return np.repeat([1.0, 0.0], [positive, n - positive])


LABELS = given(100, 200)


def test_hand_arithmetic() -> None:
    """Share .78 of 1,000, sensitivity 90 of 100, specificity 85 of 100."""
    own = np.concatenate([given(90, 100), given(15, 100)])
    found = rogan_gladen(LABELS, own, given(780, 1000))
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


def test_a_judge_that_hardly_tells_right_from_wrong_is_refused() -> None:
    own = np.concatenate([given(60, 100), given(41, 100)])
    found = rogan_gladen(LABELS, own, given(500, 1000))
    assert found[:3] == (None, None, None)
    assert found.reason == "sensitivity + specificity - 1 is 0.19; 0.2 is needed"
    allowed = np.concatenate([given(60, 100), given(40, 100)])
    assert rogan_gladen(LABELS, allowed, given(500, 1000)).reason is None


@pytest.mark.parametrize("kind", [0.0, 1.0])
def test_labels_of_one_kind_are_refused(kind: float) -> None:
    found = rogan_gladen(np.full(50, kind), np.ones(50), np.ones(10))
    assert found.value is None
    assert found.reason == "labels of both kinds, and verdicts, are needed"
    nothing = np.array([])
    assert rogan_gladen(nothing, nothing, np.ones(3)).reason == "there is no human label"
    assert rogan_gladen(LABELS, LABELS, nothing).value is None
