"""Differences of two systems on the same questions: the one place where chance is ruled out.

The headline, ``compare``, ``diff``, the gate and the page all go by :class:`PairedDifferences`:

- p is that of the paired randomisation test;
- where questions share evidence, and so rise and fall alike, p is at least that of the t whose
  variance allows for it (:class:`SharedEvidence`), and intervals are as much wider;
- where one system wins all m questions on which the two differ, p is at most 2 * 2^-m: the chance
  of that among equals.

One anchor is tested against many later states. Each of these looks is tested at alpha / 20, so 20
of them together raise a false alarm with a chance of at most alpha, however they depend on each
other (Bonferroni). What is tested at one look shares its level by its joint distribution
(:func:`rag_assets.statistics.paired_tests.joint_p_values`); a column of which no unit differs can
raise no alarm and takes no share (Tarone 1990). The price is power: a drop must be 1.5 times as
large to be found for alpha .05 and power .8.

**Shared evidence.** The variance of the mean is taken in two ways, and what says less counts. As if
all questions were independent it is the sum of e_i^2, e_i = w_i * (d_i - mean); with what
neighbours share it is the sum of e_i * e_j over all pairs with a relevant document in common, and
all i = j (Conley, Journal of Econometrics 92, 1999). Unlike clusters the second does not take A and
C for one because each shares something with B.

It is e' M e, and few documents say little about it. Where errors are independent its mean is tr(MH)
and its variance 2 tr(MHMH), where H takes the mean away. So it is divided by tr(MH), and its t has
tr(MH)^2 / tr(MHMH) degrees of freedom (Satterthwaite 1946): G - 1 where G groups of equal size
share all within and nothing between. ``benchmarks/shared_evidence.py`` prints false alarms and
power.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.paired_tests import (
    Alternative,
    joint_p_values,
    randomisation_p_values,
    spread,
)
from rag_assets.statistics.units import SAME, Counted, Floats, Resampling, Units, units_of

LOOKS = 20
"""So many states are compared with one anchor."""

_NEAR, _EXTREME, _FINEST = 10, 100, 1_000_000
"""See :func:`look_p_values`; and how many sign patterns are drawn at most."""

FEW_QUESTIONS = 60
"""With fewer, the allowance for what they share is approximate."""

FEW_DOCUMENTS = 4
"""With fewer degrees of freedom, only questions on other documents add information."""

Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SharedVariance:
    """The variance of mean differences with what neighbours share; arrays of shape (columns,).

    ``ratio`` is over the variance of independent questions, NaN where every question shares
    evidence with every other; ``freedom`` are the degrees of freedom of its t.
    """

    ratio: Floats
    freedom: Floats

    def inflation(self, n_questions: Floats, level: float) -> Floats:
        """Return by how much the squared half-width of an interval grows; 1 or more."""
        from scipy.special import stdtrit

        place = (1 + level) / 2
        with np.errstate(invalid="ignore"):
            wider = stdtrit(self.freedom, place) / stdtrit(n_questions - 1, place)
            return np.fmax(1.0, np.asarray(self.ratio * wider**2, dtype=np.float64))


class SharedEvidence:
    """Which questions share a relevant document; those with the same documents are one group."""

    def __init__(self, documents: Sequence[Collection[str]]) -> None:
        """Take the relevant documents of each question; without any it shares nothing."""
        keys = [frozenset(names) or number for number, names in enumerate(documents)]
        groups = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self._group: Places = np.array([groups[key] for key in keys], dtype=np.intp)
        holders: dict[str, list[int]] = {}
        for key, number in groups.items():
            for name in key if isinstance(key, frozenset) else ():
                holders.setdefault(name, []).append(number)
        n = len(groups)
        codes = [np.arange(n) * (n + 1)]
        for numbers in holders.values():
            if len(numbers) > 1:
                held = np.array(numbers)
                codes.append((held[:, None] * n + held).ravel())
        self._one, self._other = np.divmod(np.unique(np.concatenate(codes)), n)
        self._n_groups = n

    @property
    def is_shared(self) -> bool:
        """Whether any two questions share anything."""
        return self._n_groups < self._group.size or self._one.size > self._n_groups

    def variance(self, differences: Floats, weights: Floats) -> SharedVariance:
        """Return the variance of the weighted mean of each column; NaN: a question has no value."""
        present = ~np.isnan(differences)
        n = present.sum(axis=0).astype(np.float64)
        weighted = np.where(present, weights[:, None], 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.nansum(differences * weighted, axis=0) / weighted.sum(axis=0)
            residuals = np.where(present, differences - means, 0.0) * weighted
            residuals[np.abs(residuals) <= SAME * weighted] = 0.0
            counts = self._gathered(present.astype(np.float64))
            degree = self._neighbours(counts)
            pairs, squares = (counts * degree).sum(axis=0), (counts * degree**2).sum(axis=0)
            trace = n - pairs / n
            spread = pairs - 2 * squares / n + (pairs / n) ** 2
            sums = self._gathered(residuals)
            shared = (sums * self._neighbours(sums)).sum(axis=0)
            ratio = (shared / trace) / ((residuals**2).sum(axis=0) / (n - 1))
            freedom = trace**2 / spread
        is_estimable = trace > 1e-9 * n
        return SharedVariance(
            np.where(is_estimable, ratio, np.nan), np.where(is_estimable, freedom, np.nan)
        )

    def freedom(self) -> float:
        """Return the degrees of freedom where every question has a value; NaN: not estimable."""
        n = self._group.size
        return float(self.variance(np.zeros((n, 1)), np.ones(n)).freedom[0])

    def caveat(self) -> str | None:
        """Return what limits a claim because of what questions share; None: nothing does."""
        n = self._group.size
        if not self.is_shared:
            return None
        freedom = self.freedom()
        if np.isnan(freedom):
            return (
                f"all {n} questions share documents, so this says nothing about questions on other "
                "documents"
            )
        if freedom < FEW_DOCUMENTS:
            return (
                f"the {n} questions share so few documents that they count like "
                f"{round(freedom) + 1}; only questions on other documents add information"
            )
        if n < FEW_QUESTIONS:
            return (
                f"{n} questions, some of which share documents, are fewer than {FEW_QUESTIONS}, so "
                "p and the interval are approximate"
            )
        return None

    def _gathered(self, values: Floats) -> Floats:
        sums = np.zeros((self._n_groups, values.shape[1]))
        np.add.at(sums, self._group, values)
        return sums

    def _neighbours(self, sums: Floats) -> Floats:
        totals = np.zeros_like(sums)
        np.add.at(totals, self._one, sums[self._other])
        return totals


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

    def joint_p_values(self, resampling: Resampling) -> list[float | None]:
        """Return p of each drop, corrected for the others by their joint distribution.

        What shared evidence adds is corrected by the same factor.
        """
        alone = randomisation_p_values(self.units, resampling, "less")
        joint = joint_p_values(self.units, resampling)
        p_values: list[float | None] = []
        for number, (p, corrected) in enumerate(zip(alone, joint, strict=True)):
            if p is None or corrected is None:
                p_values.append(None)
                continue
            corrected = max(p, corrected)
            least = min(1.0, self._least(number, "less") * corrected / p)
            p_values.append(min(max(corrected, least), len(joint) * self._most(number, "less")))
        return p_values

    def _least(self, number: int, alternative: Alternative) -> float:
        """Return p of the t that allows for shared evidence; 0 where nothing is shared."""
        difference = spread(*self.units.column(number))
        if self._shared is None or difference is None or difference.error == 0:
            return 0.0
        ratio, freedom = self._shared.ratio[number], self._shared.freedom[number]
        if not ratio > 0:  # not estimable, or neighbours differ more than others do
            return 0.0
        # Loaded where it is needed: an evaluation that changed nothing is shown without it.
        from scipy.special import stdtr

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
    differences: PairedDifferences, resampling: Resampling, alpha: float
) -> list[float | None]:
    """Return p of the one-sided test against a drop, corrected for all columns of the look.

    Where any is near the level, the look is tested again with so many sign patterns that about 100
    of them are as extreme at that level: p of few patterns is wrong by chance. None for a column of
    which no question differs.

    Args:
        differences: new - old, a column a retriever.
        resampling: the number of patterns of the first test, and the seed.
        alpha: level of all looks together.
    """
    p_values = differences.joint_p_values(resampling)
    level = look_level(alpha)
    limit = _NEAR * max(level, 1 / (resampling.resamples + 1))
    patterns = min(math.ceil(_EXTREME / level), _FINEST)
    is_near = any(p is not None and p < limit for p in p_values)
    if is_near and patterns > resampling.resamples:
        return differences.joint_p_values(replace(resampling, resamples=patterns))
    return p_values


def fewest_falls(alpha: float) -> int:
    """Return how many questions must fall, where none rises, before chance can be ruled out.

    Two equal systems are that far apart with a chance of 2^-n.
    """
    return math.floor(math.log2(1 / look_level(alpha))) + 1
