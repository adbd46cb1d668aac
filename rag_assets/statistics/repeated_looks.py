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

from rag_assets.statistics.randomisation import randomisation_p_values
from rag_assets.statistics.resampling import Resampling
from rag_assets.statistics.t_test import POWER
from rag_assets.statistics.units import Units

LOOKS = 20
"""So many states are compared with one anchor."""

_NEAR, _EXTREME, _FINEST = 10, 100, 1_000_000
"""See :func:`look_p_values`; and how many sign patterns are drawn at most."""


def look_level(alpha: float) -> float:
    """Return the level of the test at each look."""
    return alpha / LOOKS


def look_p_values(
    differences: Units, resampling: Resampling, alpha: float, n_tests: int
) -> list[float | None]:
    """Return p of the one-sided randomisation test against a drop, for every column.

    What is near the level of the look is tested again with so many sign patterns that about 100 of
    them are as extreme where p is at the lowest level that Holm's correction uses: p of few
    patterns is wrong by chance, and with one seed by the same chance at all looks.

    Args:
        differences: each unit's sums of weight * (new - old).
        resampling: the number of patterns of the first test, and the seed.
        alpha: level of all looks together.
        n_tests: tests at this look.
    """
    p_values = randomisation_p_values(differences, resampling, "less")
    level = look_level(alpha)
    limit = _NEAR * max(level, 1 / (resampling.resamples + 1))
    near = [place for place, p in enumerate(p_values) if p is not None and p < limit]
    patterns = min(math.ceil(_EXTREME * n_tests / level), _FINEST)
    if near and patterns > resampling.resamples:
        columns = Units(differences.sums[:, near], differences.weights[:, near])
        finer = replace(resampling, resamples=patterns)
        for place, p in zip(near, randomisation_p_values(columns, finer, "less"), strict=True):
            p_values[place] = p
    return p_values


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
