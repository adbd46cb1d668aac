"""Tests of one anchor against many later states, so that all of them together are seldom wrong.

Each look at a new state is a test, and of many tests at level alpha some find a drop where there is
none. Tested at alpha / 20 each, 20 looks together raise a false alarm with a chance of at most
alpha, however they depend on each other (Bonferroni's inequality); no later look needs to be known
beforehand. What is tested at one look shares the level of that look by its joint distribution
(:func:`rag_assets.statistics.randomisation.joint_p_values`), so copies of one search are one test.
A column of which no unit differs can raise no alarm, so it takes no share (Tarone, "A modified
Bonferroni method for discrete data", Biometrics 46, 1990).

The price is power: a drop must be (z(1 - alpha / 20) + z(power)) standard errors large to be found,
not (z(1 - alpha) + z(power)): 1.5 times as large for alpha .05 and power .8.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rag_assets.statistics.paired_differences import PairedDifferences
from rag_assets.statistics.resampling import Resampling
from rag_assets.statistics.t_test import POWER

LOOKS = 20
"""So many states are compared with one anchor."""

_NEAR, _EXTREME, _FINEST = 10, 100, 1_000_000
"""See :func:`look_p_values`; and how many sign patterns are drawn at most."""


def look_level(alpha: float) -> float:
    """Return the level of the test at each look."""
    return alpha / LOOKS


def look_p_values(
    differences: PairedDifferences, resampling: Resampling, alpha: float, n_looks: int = 1
) -> list[float | None]:
    """Return p of the one-sided test against a drop, corrected for all columns of the look.

    Where any is near the level, the look is tested again with so many sign patterns that about 100
    of them are as extreme at that level: p of few patterns is wrong by chance, and with one seed by
    the same chance at all looks.

    Args:
        differences: new - old, a column a retriever; of several looks, one look after another.
        resampling: the number of patterns of the first test, and the seed.
        alpha: level of all looks together.
        n_looks: how many looks the columns are of.

    Returns:
        None for a column of which no question differs.
    """
    family = differences.values.shape[1] // n_looks
    p_values = differences.joint_p_values(resampling, family)
    level = look_level(alpha)
    limit = _NEAR * max(level, 1 / (resampling.resamples + 1))
    patterns = min(math.ceil(_EXTREME / level), _FINEST)
    is_near = np.array([p is not None and p < limit for p in p_values]).reshape(n_looks, family)
    near = np.flatnonzero(np.repeat(is_near.any(axis=1), family))
    if near.size and patterns > resampling.resamples:
        closer = PairedDifferences(differences.counted, differences.values[:, near])
        finer = closer.joint_p_values(replace(resampling, resamples=patterns), family)
        for place, p in zip(near, finer, strict=True):
            p_values[place] = p
    return p_values


def fewest_falls(alpha: float) -> int:
    """Return how many questions must fall, where none rises, before chance can be ruled out.

    Two equal systems are that far apart with a chance of 2^-n; it has to be below the level of a
    look.
    """
    return math.floor(math.log2(1 / look_level(alpha))) + 1


MIN_UNITS = 5
"""The spread of fewer units is a guess: no number of units that are needed follows from it."""


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
