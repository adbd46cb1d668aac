"""By how much a metric fell from one evaluation to the next, and how sure that is.

The drop is the mean of old - new over the queries that have a value in both. H0 is that there is
none. p is that of the paired randomisation test against a drop, over clusters where queries are
clustered, and the interval that of :mod:`rag_assets.statistics.intervals`. The smallest true drop
that the test finds with power 0.8 is (t(1 - level) + t(0.8)) * standard error, t being
quantiles of Student's distribution with n - 1 degrees of freedom (Bloom, "Minimum detectable
effects", 1995).

What a judge says of answers counts only as labels of people calibrate it: p and the interval are
those of :mod:`rag_assets.statistics.calibrated_differences`, of the answers that changed. Another
judge alone changes neither.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rag_assets.errors import NotEstimable
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.judged_changes import judged_change
from rag_assets.report.metric_choice import is_judged, is_sampled
from rag_assets.report.sampled import sampled_difference
from rag_assets.statistics.intervals import bounded_intervals, largest_value, number_or_none
from rag_assets.statistics.repeated_looks import look_level, look_p_values
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.t_test import POWER, spread
from rag_assets.statistics.units import (
    SAME,
    Counted,
    Units,
    counted_by_split,
    units_of,
    weighted_mean,
)


@dataclass(frozen=True)
class Drop:
    """How a metric of one retriever went, on the queries that have a value in both.

    Attributes:
        n: queries.
        old: weighted mean of the older values; None: of a judge, and not calibrated.
        new: weighted mean of the newer ones; likewise.
        change: by how much it rose.
        low: lower bound of new - old; None for fewer than two independent units.
        high: upper bound.
        p: one-sided; how often chance alone gives so large a drop; None: nothing was tested,
            because no query has another value than before.
        detectable: the smallest drop that is found at a look with power 0.8; None: no spread is
            known.
        error: standard error of the change; None: none is known.
        n_units: independent units: queries, or clusters of them.
        reason: why there is no interval, where that is not too few units.
    """

    n: int
    old: float | None
    new: float | None
    change: float
    low: float | None
    high: float | None
    p: float | None
    detectable: float | None
    error: float | None = None
    n_units: int = 0
    reason: str | None = None

    @property
    def drop(self) -> float:
        """By how much the mean fell; negative where it rose."""
        return 0.0 - self.change


def drop_of(pair: EvaluationPair, old: str, new: str, alpha: float, n_tests: int) -> Drop | None:
    """Compare retriever ``new`` of the newer evaluation with ``old`` of the older one.

    Args:
        pair: two evaluations, a metric and a split.
        old: name of a retriever in the older evaluation.
        new: name of one in the newer.
        alpha: level of all looks together; the interval has confidence 1 - alpha.
        n_tests: of this look: so fine has p to be.

    Returns:
        None where they have no query with a value in common.

    Raises:
        NotEstimable: the metric is what a judge says, and nothing calibrates it.
    """
    if is_judged(pair.metric):
        return _judged_drop(pair, old, new, alpha)
    if is_sampled(pair.metric):
        return _sampled_drop(pair, old, new, alpha)
    tables = pair.old_cells[old], pair.new_cells[new]
    for counted in counted_by_split(pair.counting, tables):
        before, after = (counted.values(table, pair.metric.column) for table in tables)
        both = ~(np.isnan(before) | np.isnan(after))
        if both.any():
            return _drop(pair, counted, before, after, alpha, n_tests)
    return None


def _drop(
    pair: EvaluationPair,
    counted: Counted,
    before: Floats,
    after: Floats,
    alpha: float,
    n_tests: int,
) -> Drop:
    gained = after - before
    n = int(np.count_nonzero(~np.isnan(gained)))
    values = np.column_stack([gained, np.where(np.isnan(gained), np.nan, before)])
    units = units_of(values, counted.weights, counted.clusters)
    difference, old = (weighted_mean(*units.column(number)) or 0.0 for number in (0, 1))
    if np.nanmax(np.abs(gained)) <= SAME:
        n_units = int(np.count_nonzero(units.weights[:, 0]))
        return Drop(n, old, old, 0.0, 0.0, 0.0, None, None, None, n_units)
    change = Units(units.sums[:, :1], units.weights[:, :1])
    resampling = replace(pair.resampling, confidence=1 - alpha)
    reach = largest_value(before, after)
    low, high = bounded_intervals(change, 1 - alpha, -reach, reach)
    p = look_p_values(change, resampling, alpha, n_tests)[0]
    deviation = spread(*change.column(0))
    error = deviation.error if deviation is not None else None
    n_units = int(np.count_nonzero(change.weights))
    return Drop(
        n=n,
        old=old,
        new=old + difference,
        change=old + difference - old,
        low=number_or_none(low[0]),
        high=number_or_none(high[0]),
        p=p,
        detectable=_smallest(error, n_units, alpha),
        error=error,
        n_units=n_units,
    )


def _smallest(error: float | None, n_units: int, alpha: float) -> float | None:
    from scipy.special import stdtrit

    if not error:
        return None
    freedom = n_units - 1
    level = look_level(alpha)
    return float((stdtrit(freedom, 1 - level) + stdtrit(freedom, POWER)) * error)


def _judged_drop(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop | None:
    change = judged_change(pair, old, new, 1 - alpha)
    if change is None:
        return None
    row = change.row
    if row["calibrated"] is None:
        raise NotEstimable(f"{pair.metric} is not calibrated: {row['reason']}")
    mean, difference = change.mean, row["calibrated"]
    same = row["low"] is not None and row["low"] == row["high"] == 0
    return Drop(
        n=row["n"],
        old=None if mean is None else mean - difference,
        new=mean,
        change=difference,
        low=row["low"],
        high=row["high"],
        p=None if same or row["low"] is None else change.p,
        detectable=_smallest(change.error, change.n_units, alpha),
        error=change.error,
        n_units=change.n_units,
        reason=row["reason"],
    )


def _sampled_drop(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop:
    """Return the same of what a sample of labels estimates, on questions like these."""
    found = sampled_difference((pair.old, pair.new), (old, new), pair.metric, 1 - alpha)
    is_known = found.row["questions_low"] is not None
    same = is_known and found.error == 0 == found.row["difference"]
    n_units = round(found.freedom) + 1 if is_known else 0
    error = found.error if is_known else None
    return Drop(
        n=found.row["n"],
        old=found.means[0],
        new=found.means[1],
        change=found.row["difference"],
        low=found.row["questions_low"],
        high=found.row["questions_high"],
        p=found.p_drop if is_known and not same else None,
        detectable=_smallest(error, n_units, alpha),
        error=error,
        n_units=n_units,
        reason=None if is_known else "passages had no chance to be asked yet; label more",
    )
