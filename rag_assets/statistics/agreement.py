"""How far a judge agrees with people: tables, rates, chance-corrected coefficients.

No coefficient goes without its table: where 90 % of the labels are of one kind, a judge that agrees
on 90 % has kappa .44 and AC1 .88, and with balanced labels .8 and .8.

- Cohen's kappa = (po - pe) / (1 - pe), pe from the product of the two margins; weighted with
  (i - j)^2 for grades (Cohen 1960, 1968).
- Gwet's AC1 = (po - pe) / (1 - pe), pe = sum over q classes of pi (1 - pi) / (q - 1), pi the mean
  of the two margins (British Journal of Mathematical and Statistical Psychology 61, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.intervals import resampled_means, wilson
from rag_assets.statistics.units import SAME, Floats, Resampling, units_of

Counts = npt.NDArray[np.int64]


class Share(NamedTuple):
    """A share of ``n`` with Wilson's interval; None, and (0, 1), of nothing."""

    value: float | None
    low: float
    high: float
    n: int


class Agreement(NamedTuple):
    """Labels against verdicts; coefficients are None where one class is all there is.

    ``table`` counts how often people gave the row's grade, the judge the column's; ``n_missing``
    are labelled, but without a verdict. ``sensitivity`` and ``specificity`` are the shares of what
    people call positive, or negative, that the judge calls so.
    """

    table: Counts
    n_missing: int
    agreed: Share
    sensitivity: Share
    specificity: Share
    kappa: float | None
    weighted_kappa: float | None
    ac1: float | None


def agreement(
    labels: Floats,
    verdicts: Floats,
    *,
    n_grades: int = 2,
    positive_from: int = 1,
    level: float = 0.95,
) -> Agreement:
    """Compare two ratings of the same items, in grades from 0 to ``n_grades`` - 1.

    A verdict is NaN where the judge gave none. Sensitivity and specificity take grades from
    ``positive_from`` on for positive; ``level`` is that of Wilson's intervals.
    """
    given = ~np.isnan(verdicts)
    table = np.zeros((n_grades, n_grades), dtype=np.int64)
    np.add.at(table, (labels[given].astype(np.intp), verdicts[given].astype(np.intp)), 1)
    positive, negative = table[positive_from:], table[:positive_from]
    return Agreement(
        table=table,
        n_missing=int(np.count_nonzero(~given)),
        agreed=_share(table.trace(), table.sum(), level),
        sensitivity=_share(positive[:, positive_from:].sum(), positive.sum(), level),
        specificity=_share(negative[:, :positive_from].sum(), negative.sum(), level),
        kappa=cohens_kappa(table),
        weighted_kappa=cohens_kappa(table, weighted=True),
        ac1=gwets_ac1(table),
    )


def _share(part: int, whole: int, level: float) -> Share:
    value = int(part) / int(whole) if whole else None
    return Share(value, *wilson(value or 0.0, int(whole), level), int(whole))


def cohens_kappa(table: Counts, *, weighted: bool = False) -> float | None:
    """Return kappa of a square table of counts; None where chance alone agrees on everything."""
    total = table.sum()
    if total == 0:
        return None
    places = np.arange(len(table))
    distance = (places[:, None] - places) ** 2
    cost = distance if weighted else distance > 0
    by_chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    expected = float((cost * by_chance).sum())
    return 1 - float((cost * table).sum()) / expected if expected > 0 else None


def gwets_ac1(table: Counts) -> float | None:
    """Return AC1 of a square table of counts, of two classes or more; None without counts."""
    total = table.sum()
    if total == 0:
        return None
    shares = (table.sum(axis=1) + table.sum(axis=0)) / (2 * total)
    by_chance = float((shares * (1 - shares)).sum()) / (len(table) - 1)
    return (float(table.trace() / total) - by_chance) / (1 - by_chance)


class OrderAgreement(NamedTuple):
    """Whether the judge puts systems in the order in which people put them.

    ``tau`` is Kendall's tau_b of the means of all systems, None where all of one side are equal;
    ``tau_top`` that of ``top``, the half (at least two) that people find best: many bad systems
    make a high tau (Clarke and Dietz, arXiv 2412.17156). Bounds are over questions like these;
    ``same_winner`` is the share of resamples in which both find the same system best.
    """

    tau: float | None
    low: float | None
    high: float | None
    top: tuple[int, ...]
    tau_top: float | None
    low_top: float | None
    high_top: float | None
    same_winner: float


def order_agreement(
    labels: Floats, verdicts: Floats, resampling: Resampling, *, clusters: Sequence[str] | None
) -> OrderAgreement:
    """Compare two orders of at least two systems, by their means over the same questions.

    ``labels`` and ``verdicts`` have a row a question and a column a system. tau_b = sum of
    sign(a) sign(b) / sqrt(sum of sign(a)^2 * sum of sign(b)^2) over pairs of systems, a and b
    their differences by people and by the judge (Kendall 1945). The bootstrap draws questions, or
    whole clusters, and takes both means over the same ones.
    """
    n, n_systems = labels.shape
    units = units_of(np.hstack([labels, verdicts]), clusters=clusters)
    means = units.sums.sum(axis=0, keepdims=True) / n
    drawn = resampled_means(units, resampling)
    order = np.argsort(-means[0, :n_systems], kind="stable")
    top = tuple(sorted(order[: max(2, (n_systems + 1) // 2)].tolist()))
    both = [*top, *(n_systems + system for system in top)]
    best = (np.argmax(part, axis=1) for part in np.hsplit(drawn, 2))
    return OrderAgreement(
        *_tau_with_interval(means, drawn, resampling),
        top,
        *_tau_with_interval(means[:, both], drawn[:, both], resampling),
        float(np.mean(np.equal(*best))),
    )


def _tau_with_interval(
    means: Floats, drawn: Floats, resampling: Resampling
) -> tuple[float | None, float | None, float | None]:
    tau, taus = _tau_b(means)[0], _tau_b(drawn)
    if np.isnan(tau):
        return None, None, None
    low, high = np.nanquantile(taus, resampling.tails)
    return float(tau), float(low), float(high)


def _tau_b(means: Floats) -> Floats:
    """Return tau_b of each row, whose first half is one rater's means; NaN: one has only ties."""
    first, second = np.triu_indices(means.shape[1] // 2, 1)
    a, b = (_signs(half[:, first] - half[:, second]) for half in np.hsplit(means, 2))
    pairs = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    taus = np.full(len(a), np.nan)
    np.divide((a * b).sum(axis=1), pairs, out=taus, where=pairs > 0)
    return taus


def _signs(differences: Floats) -> Floats:
    signs: Floats = np.where(np.abs(differences) <= SAME, 0.0, np.sign(differences))
    return signs
