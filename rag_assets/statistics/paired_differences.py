"""Differences of two systems on the same questions: the one place where chance is ruled out.

The headline, ``compare``, ``diff``, the gate and the page all go by :class:`PairedDifferences`:

- p is that of the paired randomisation test;
- where questions share evidence, p is at least that of the t whose variance allows for it
  (:mod:`rag_assets.statistics.shared_evidence`), and intervals are as much wider;
- where one system wins all m questions on which the two differ, p is at most 2 * 2^-m: the chance
  of that among equals.

One anchor is tested against many later states. Each of these looks is tested at alpha / 20, so 20
of them together raise a false alarm with a chance of at most alpha, however they depend on each
other (Bonferroni). What is tested at one look shares its level by its joint distribution
(:func:`rag_assets.statistics.paired_tests.joint_p_values`); a column of which no unit differs can
raise no alarm and takes no share (Tarone 1990). The price is power: a drop must be 1.5 times as
large to be found for alpha .05 and power .8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.paired_tests import (
    POWER,
    Alternative,
    joint_p_values,
    randomisation_p_values,
    spread,
)
from rag_assets.statistics.shared_evidence import SharedEvidence, SharedVariance
from rag_assets.statistics.units import SAME, Counted, Floats, Resampling, Units, units_of

LOOKS = 20
"""So many states are compared with one anchor."""

_NEAR, _EXTREME, _FINEST = 10, 100, 1_000_000
"""See :func:`look_p_values`; and how many sign patterns are drawn at most."""

MIN_UNITS = 5
"""The spread of fewer units is a guess: no number of units that are needed follows from it."""


@dataclass(frozen=True)
class PairedDifferences:
    """Differences of pairs of systems, shape (questions, pairs); NaN where one has no value."""

    counted: Counted
    values: Floats

    @cached_property
    def units(self) -> Units:
        """Sums over independent units: questions, or clusters of them."""
        return units_of(self.values, self.counted.weights, self.counted.clusters)

    @cached_property
    def _shared(self) -> SharedVariance | None:
        evidence = shared_evidence(self.counted)
        return evidence.variance(self.values, self.counted.weights) if evidence else None

    def inflations(self, level: float) -> Floats:
        """Return by how much shared evidence makes the variance of each pair larger; 1 or more."""
        if self._shared is None:
            return np.ones(self.values.shape[1])
        n_questions = np.count_nonzero(~np.isnan(self.values), axis=0)
        return self._shared.inflation(n_questions.astype(np.float64), level)

    def intervals(self, level: float, reach: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the bounds of each pair's mean difference, at most ``reach`` in magnitude."""
        bound = np.asarray(reach)
        return bounded_intervals(self.units, level, -bound, bound, self.inflations(level))

    def p_values(
        self, resampling: Resampling, alternative: Alternative = "two-sided"
    ) -> list[float | None]:
        """Return p of each pair; None where no question has a value, 1 where none differs."""
        p_values = randomisation_p_values(self.units, resampling, alternative)
        return [
            None if p is None else min(max(p, self._least(number, alternative)), most)
            for number, p in enumerate(p_values)
            for most in [self._most(number, alternative)]
        ]

    def joint_p_values(
        self, resampling: Resampling, family: int | None = None
    ) -> list[float | None]:
        """Return p of each drop, corrected for the others by their joint distribution.

        What shared evidence adds is corrected by the same factor. ``family`` as in
        :func:`rag_assets.statistics.paired_tests.joint_p_values`.
        """
        alone = randomisation_p_values(self.units, resampling, "less")
        joint = joint_p_values(self.units, resampling, family)
        n_tests = family or len(joint)
        p_values: list[float | None] = []
        for number, (p, corrected) in enumerate(zip(alone, joint, strict=True)):
            if p is None or corrected is None:
                p_values.append(None)
                continue
            corrected = max(p, corrected)
            least = min(1.0, self._least(number, "less") * corrected / p)
            p_values.append(min(max(corrected, least), n_tests * self._most(number, "less")))
        return p_values

    def _least(self, number: int, alternative: Alternative) -> float:
        """Return p of the t that allows for shared evidence; 0 where nothing is shared."""
        from scipy.special import stdtr

        difference = spread(*self.units.column(number))
        if self._shared is None or difference is None or difference.error == 0:
            return 0.0
        ratio, freedom = self._shared.ratio[number], self._shared.freedom[number]
        if not ratio > 0:  # not estimable, or neighbours differ more than others do
            return 0.0
        t = difference.mean / (difference.error * ratio**0.5)
        if alternative == "two-sided":
            return float(2 * stdtr(freedom, -abs(t)))
        return float(stdtr(freedom, t if alternative == "less" else -t))

    def _most(self, number: int, alternative: Alternative) -> float:
        """Return the chance that one system wins every unit on which two equal ones differ."""
        sums, weights = self.units.column(number)
        won = np.count_nonzero(sums > SAME * weights)
        lost = np.count_nonzero(sums < -SAME * weights)
        is_clear = {"two-sided": min(won, lost) == 0, "less": won == 0, "greater": lost == 0}
        if not is_clear[alternative] or won + lost == 0:
            return 1.0
        return min(1.0, (2.0 if alternative == "two-sided" else 1.0) * 2.0 ** -(won + lost))


def shared_evidence(counted: Counted) -> SharedEvidence | None:
    """Return what questions share; None where nothing is, or clusters stand for it."""
    if counted.documents is None:
        return None
    evidence = SharedEvidence(counted.documents)
    return evidence if evidence.is_shared else None


def look_level(alpha: float) -> float:
    """Return the level of the test at each look."""
    return alpha / LOOKS


def look_p_values(
    differences: PairedDifferences, resampling: Resampling, alpha: float, n_looks: int = 1
) -> list[float | None]:
    """Return p of the one-sided test against a drop, corrected for all columns of the look.

    Where any is near the level, the look is tested again with so many sign patterns that about 100
    of them are as extreme at that level: p of few patterns is wrong by chance. None for a column of
    which no question differs.

    Args:
        differences: new - old, a column a retriever; of several looks, one look after another.
        resampling: the number of patterns of the first test, and the seed.
        alpha: level of all looks together.
        n_looks: how many looks the columns are of.
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

    Two equal systems are that far apart with a chance of 2^-n.
    """
    return math.floor(math.log2(1 / look_level(alpha))) + 1


def units_needed(error: float, n_units: int, margin: float, level: float) -> float:
    """Return how many units show with power 0.8 that a mean is at least a margin off a bound.

    n = ((z(1 - level) + z(power)) * s / margin)^2, with s = error * sqrt(n_units) the standard
    deviation of a unit's difference, where ``error`` is that of the mean of ``n_units``.
    """
    from scipy.special import ndtri

    reach = float(ndtri(1 - level) + ndtri(POWER))
    return float(n_units * (reach * error / margin) ** 2)
