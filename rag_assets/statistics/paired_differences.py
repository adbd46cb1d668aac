"""Differences of two systems on the same questions: the one place where chance is ruled out.

The headline, ``compare``, ``diff``, the gate and the page all go by :class:`PairedDifferences`:

- p is that of the paired randomisation test;
- where questions share evidence, p is at least that of the t whose variance allows for it
  (:mod:`rag_assets.statistics.shared_evidence`), and intervals are as much wider;
- where one system wins all m questions on which the two differ, p is at most 2 * 2^-m: the chance
  of that among equals, whatever the sizes of the differences are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.randomisation import (
    Alternative,
    joint_p_values,
    randomisation_p_values,
)
from rag_assets.statistics.resampling import Floats, Resampling
from rag_assets.statistics.shared_evidence import SharedEvidence, SharedVariance
from rag_assets.statistics.t_test import spread
from rag_assets.statistics.units import SAME, Counted, Units, units_of


@dataclass(frozen=True)
class PairedDifferences:
    """Differences of pairs of systems.

    Attributes:
        counted: the questions.
        values: shape (questions, pairs); NaN where a question has no value in both.
    """

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
        """Return by how much shared evidence makes the variance of each pair larger; 1 or more.

        The square root of it is by how much an interval of this level is wider.
        """
        if self._shared is None:
            return np.ones(self.values.shape[1])
        n_questions = np.count_nonzero(~np.isnan(self.values), axis=0)
        return self._shared.inflation(n_questions.astype(np.float64), level)

    def intervals(self, level: float, reach: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the lower and the upper bound of each pair's mean difference.

        Args:
            level: of the intervals.
            reach: how large a difference can be; a number, or one a pair.
        """
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

        What shared evidence adds is corrected by the factor by which p of the test is.

        Args:
            resampling: the number of sign patterns, and the seed.
            family: so many pairs, one after another, are corrected for each other; all when absent.
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
