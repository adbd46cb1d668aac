"""How far a judge agrees with people: tables, rates, chance-corrected coefficients.

No coefficient goes without its table: where 90 % of the labels are of one kind, a judge that agrees
on 90 % has kappa .44 and AC1 .88, and with balanced labels .8 and .8.

- Cohen's kappa = (po - pe) / (1 - pe), pe from the product of the two margins; weighted with
  (i - j)^2 for grades (Cohen 1960, 1968).
- Gwet's AC1 = (po - pe) / (1 - pe), pe = sum over q classes of pi (1 - pi) / (q - 1), pi the mean
  of the two margins (British Journal of Mathematical and Statistical Psychology 61, 2008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.intervals import wilson
from rag_assets.statistics.units import Floats

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
