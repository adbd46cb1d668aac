"""Whether a retriever got worse: the one-sided paired test and interval behind a gate.

The drop is the mean of old - new over the queries that have a value in both. H0 is that there is
none. p is that of the paired randomisation test against a drop, and the interval that of the
bootstrap at confidence 1 - alpha, as in :mod:`rag_assets.statistics`. The smallest true drop that
the test finds with power 0.8 is (t(1 - alpha) + t(0.8)) * standard error, t being quantiles of
Student's distribution with n - 1 degrees of freedom (Bloom, "Minimum detectable effects", 1995).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.statistics.bootstrap import bootstrap_intervals
from rag_assets.statistics.detectable import POWER
from rag_assets.statistics.intervals import number_or_none
from rag_assets.statistics.randomisation import randomisation_p_values
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.t_test import spread
from rag_assets.statistics.units import Counted, Units, counted_by_split, units_of, weighted_mean


@dataclass(frozen=True)
class Drop:
    """How a metric of one retriever went, on the queries that have a value in both.

    Attributes:
        n: queries.
        old: weighted mean of the older values.
        new: weighted mean of the newer ones.
        low: lower bound of new - old; None for fewer than two independent units.
        high: upper bound.
        p: one-sided; how often chance alone gives so large a drop.
        detectable: the smallest drop that is found with power 0.8; None: no spread is known.
    """

    n: int
    old: float
    new: float
    low: float | None
    high: float | None
    p: float
    detectable: float | None

    @property
    def drop(self) -> float:
        """By how much the mean fell; negative where it rose."""
        return self.old - self.new

    @property
    def change(self) -> float:
        """By how much it rose; 0 has no sign."""
        return self.new - self.old


def drop_of(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop | None:
    """Compare retriever ``new`` of the newer evaluation with ``old`` of the older one.

    Args:
        pair: two evaluations, a metric and a split.
        old: name of a retriever in the older evaluation.
        new: name of one in the newer.
        alpha: level of the test; the interval has confidence 1 - alpha.

    Returns:
        None where they have no query with a value in common.
    """
    tables = pair.old_cells[old], pair.new_cells[new]
    for counted in counted_by_split(pair.counting, tables):
        before, after = (counted.values(table, pair.metric.column) for table in tables)
        both = ~(np.isnan(before) | np.isnan(after))
        if both.any():
            return _drop(pair, counted, before, after, alpha)
    return None


def _drop(
    pair: EvaluationPair, counted: Counted, before: Floats, after: Floats, alpha: float
) -> Drop:
    gained = after - before
    values = np.column_stack([gained, np.where(np.isnan(gained), np.nan, before)])
    units = units_of(values, counted.weights, counted.clusters)
    change = Units(units.sums[:, :1], units.weights[:, :1])
    resampling = replace(pair.resampling, confidence=1 - alpha)
    low, high = bootstrap_intervals(change, resampling)
    p = randomisation_p_values(change, resampling, "less")[0]
    difference, old = (weighted_mean(*units.column(number)) or 0.0 for number in (0, 1))
    return Drop(
        n=int(np.count_nonzero(~np.isnan(gained))),
        old=old,
        new=old + difference,
        low=number_or_none(low[0]),
        high=number_or_none(high[0]),
        p=1.0 if p is None else p,
        detectable=_detectable(*change.column(0), alpha),
    )


def _detectable(sums: Floats, weights: Floats, alpha: float) -> float | None:
    from scipy.special import stdtrit

    found = spread(sums, weights)
    if found is None or found.error == 0:
        return None
    freedom = found.n_units - 1
    return float((stdtrit(freedom, 1 - alpha) + stdtrit(freedom, POWER)) * found.error)
