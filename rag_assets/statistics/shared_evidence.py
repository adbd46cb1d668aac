"""How sure a mean difference is where questions share evidence, so that they rise and fall alike.

The variance of the mean is taken in two ways, and what says less counts. As if all questions were
independent it is the sum of e_i^2, e_i = w_i * (d_i - mean); with what neighbours share it is the
sum of e_i * e_j over all pairs with a relevant document in common, and all i = j (Conley, Journal
of Econometrics 92, 1999). Unlike clusters the second does not take A and C for one because each
shares something with B.

It is e' M e, and few documents say little about it. Where errors are independent its mean is tr(MH)
and its variance 2 tr(MHMH), where H takes the mean away. So it is divided by tr(MH), and its t has
tr(MH)^2 / tr(MHMH) degrees of freedom (Satterthwaite 1946): G - 1 where G groups of equal size
share all within and nothing between. ``benchmarks/shared_evidence.py`` prints false alarms and
power.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.units import SAME, Floats

FEW_QUESTIONS = 60
"""With fewer, the allowance for what they share is approximate."""

FEW_DOCUMENTS = 4
"""With fewer degrees of freedom, only questions about other documents tell more."""

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

    @property
    def is_exhausted(self) -> bool:
        """Whether only questions about other documents tell more."""
        return not self.freedom() >= FEW_DOCUMENTS

    def caveat(self) -> str | None:
        """Return what limits a claim because of what questions share; None: nothing does."""
        n = self._group.size
        if not self.is_shared:
            return None
        freedom = self.freedom()
        if np.isnan(freedom):
            return (
                f"all {n} questions share documents, so this says nothing of questions about others"
            )
        if freedom < FEW_DOCUMENTS:
            return (
                f"the {n} questions share so few documents that they weigh like "
                f"{round(freedom) + 1}; only questions about other documents tell more"
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
