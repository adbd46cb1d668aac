"""Tests of one anchor against many later states, so that all of them together are seldom wrong.

Each look at a new state is a test, and of many tests at level alpha some find a drop where there is
none. Tested at alpha / 20 each, 20 looks together raise a false alarm with a chance of at most
alpha, however they depend on each other (Bonferroni's inequality); no later look needs to be known
beforehand. What is tested at one look shares the level of that look by Holm's correction. A column
of which no unit differs can raise no alarm, so it takes no share (Tarone, "A modified Bonferroni
method for discrete data", Biometrics 46, 1990).

The price is power: a drop must be (z(1 - alpha / 20) + z(power)) standard errors large to be found,
not (z(1 - alpha) + z(power)): 1.5 times as large for alpha .05 and power .8.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rag_assets.statistics.resampling import Resampling
from rag_assets.statistics.t_test import POWER

LOOKS = 20
"""So many states are compared with one anchor."""

_FINEST = 1_000_000
"""Sign patterns that are drawn at most."""


def look_level(alpha: float) -> float:
    """Return the level of the test at each look."""
    return alpha / LOOKS


def fine_enough(resampling: Resampling, alpha: float, n_tests: int) -> Resampling:
    """Return as many sign patterns as tell p from the level that one of the tests may get.

    p of m patterns is at least 1 / (m + 1); here it can be a tenth of the lowest level.
    """
    needed = math.ceil(10 * max(n_tests, 1) / look_level(alpha))
    return replace(resampling, resamples=max(resampling.resamples, min(needed, _FINEST)))


def units_needed(error: float, n_units: int, margin: float, level: float) -> float:
    """Return how many units show with power 0.8 that a mean is at least a margin off a bound.

    n = ((z(1 - level) + z(power)) * s / margin)^2, with s = error * sqrt(n_units) the standard
    deviation of a unit's difference and z quantiles of the normal distribution.

    Args:
        error: standard error of the mean of ``n_units``.
        n_units: independent units that were seen.
        margin: from the mean to the bound; above 0.
        level: of the one-sided test.
    """
    from scipy.special import ndtri

    reach = float(ndtri(1 - level) + ndtri(POWER))
    return float(n_units * (reach * error / margin) ** 2)
