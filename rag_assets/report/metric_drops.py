"""By how much a metric fell from one evaluation to the next, and how sure that is.

The drop is the mean of old - new over the queries that have a value in both. H0 is that there is
none. p and the interval are those of :mod:`rag_assets.statistics.paired_differences`. The smallest
true drop that the test finds with power 0.8 is (t(1 - level) + t(0.8)) * standard error, t being
quantiles of Student's distribution with n - 1 degrees of freedom (Bloom, "Minimum detectable
effects", 1995).

What a judge says of answers counts only as labels of people calibrate it: p and the interval are
those of :mod:`rag_assets.statistics.calibration`, of the answers that changed. Another
judge alone changes neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_assets.errors import NotEstimable
from rag_assets.labels.sampling.estimates import no_interval_text
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.judged_changes import judged_change
from rag_assets.report.metric_choice import is_judged, is_sampled
from rag_assets.report.sampled import sampled_difference
from rag_assets.statistics.comparisons import difference, holm
from rag_assets.statistics.intervals import largest_value, number_or_none
from rag_assets.statistics.paired_differences import PairedDifferences, look_level, look_p_values
from rag_assets.statistics.paired_tests import POWER, spread
from rag_assets.statistics.units import SAME, Floats, Units, counted_by_split, weighted_mean


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


Drops = list[tuple[Drop | str, float | None]]
"""Of each retriever its drop, or why there is none; and p, corrected for all of a look."""

_NOTHING = "no query has a value in both evaluations"


def drops_of(pair: EvaluationPair, chosen: Sequence[tuple[str, str]], alpha: float) -> Drops:
    """Compare retrievers of the newer evaluation with those of the older one, at one look.

    Args:
        pair: two evaluations, a metric and a split.
        chosen: names of retrievers in the newer evaluation, each with one in the older.
        alpha: level of all looks together; the interval has confidence 1 - alpha.
    """
    if not is_judged(pair.metric) and not is_sampled(pair.metric):
        return _paired_drops(pair, chosen, alpha)
    measured = _judged_drop if is_judged(pair.metric) else _sampled_drop
    drops: list[Drop | str] = []
    for new, old in chosen:
        try:
            drops.append(measured(pair, old, new, alpha) or _NOTHING)
        except NotEstimable as error:
            drops.append(str(error))
    adjusted = holm([None if isinstance(drop, str) else drop.p for drop in drops])
    return list(zip(drops, adjusted, strict=True))


def _paired_drops(pair: EvaluationPair, chosen: Sequence[tuple[str, str]], alpha: float) -> Drops:
    column = pair.metric.column
    cells = [(pair.old_cells[old], pair.new_cells[new]) for new, old in chosen]
    tables = [table for cell in cells for table in cell]
    counted = next(counted_by_split(pair.counting, tables), None)
    if counted is None:
        return [(_NOTHING, None) for _ in chosen]
    before, after = (
        np.column_stack([counted.values(cell[side], column) for cell in cells]) for side in (0, 1)
    )
    paired = PairedDifferences(counted, after - before)
    moved = np.flatnonzero((np.abs(np.nan_to_num(paired.values)) > SAME).any(axis=0))
    adjusted: list[float | None] = [None] * len(chosen)
    p_values = list(adjusted)
    if moved.size:
        changes = PairedDifferences(counted, paired.values[:, moved])
        corrected = look_p_values(changes, pair.resampling, alpha)
        alone = changes.p_values(pair.resampling, "less")
        for number, p, both in zip(moved, alone, corrected, strict=True):
            p_values[number], adjusted[number] = p, both
    drops = [
        _paired_drop(paired, number, before[:, number], after[:, number], p, alpha)
        for number, p in enumerate(p_values)
    ]
    return list(zip(drops, adjusted, strict=True))


def _paired_drop(
    paired: PairedDifferences,
    number: int,
    before: Floats,
    after: Floats,
    p: float | None,
    alpha: float,
) -> Drop | str:
    both = ~np.isnan(paired.values[:, number])
    if not both.any():
        return _NOTHING
    n, change = int(both.sum()), Units(*(part[:, None] for part in paired.units.column(number)))
    old = difference(before[both], paired.counted.weights[both]) or 0.0
    n_units = change.sums.shape[0]
    if p is None:
        return Drop(n, old, old, 0.0, 0.0, 0.0, None, None, None, n_units)
    rise = weighted_mean(*change.column(0)) or 0.0
    low, high = paired.intervals(1 - alpha, largest_value(before, after))
    deviation = spread(*change.column(0))
    wider = float(paired.inflations(1 - alpha)[number]) ** 0.5
    error = deviation.error * wider if deviation is not None else None
    ends = number_or_none(low[number]), number_or_none(high[number])
    smallest = _smallest(error, n_units, alpha)
    return Drop(n, old, old + rise, old + rise - old, *ends, p, smallest, error, n_units)


def _smallest(error: float | None, n_units: int, alpha: float) -> float | None:
    from scipy.special import stdtrit

    if not error:
        return None
    freedom = n_units - 1
    return float((stdtrit(freedom, 1 - look_level(alpha)) + stdtrit(freedom, POWER)) * error)


def _judged_drop(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop | None:
    change = judged_change(pair, old, new, 1 - alpha)
    if change is None:
        return None
    row, mean = change.row, change.mean
    if row["calibrated"] is None:
        raise NotEstimable(f"{pair.metric} is not calibrated: {row['reason']}")
    has_interval = row["low"] is not None
    same = has_interval and row["low"] == row["high"] == 0
    return Drop(
        n=row["n"],
        old=None if mean is None else mean - row["calibrated"],
        new=mean,
        change=row["calibrated"],
        low=row["low"],
        high=row["high"],
        p=change.p if has_interval and not same else None,
        detectable=_smallest(change.error, change.n_units, alpha),
        error=change.error,
        n_units=change.n_units,
        reason=row["reason"],
    )


def _sampled_drop(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop:
    """Return the same of what a sample of labels estimates, on questions like these."""
    change = sampled_difference((pair.old, pair.new), (old, new), pair.metric, 1 - alpha)
    row = change.row
    has_interval = row["questions_low"] is not None
    same = has_interval and change.error == 0 == row["difference"]
    n_units = round(change.freedom) + 1 if has_interval else 0
    error = change.error if has_interval else None
    return Drop(
        n=row["n"],
        old=change.means[0],
        new=change.means[1],
        change=row["difference"],
        low=row["questions_low"],
        high=row["questions_high"],
        p=change.p_drop if has_interval and not same else None,
        detectable=_smallest(error, n_units, alpha),
        error=error,
        n_units=n_units,
        reason=None if has_interval else no_interval_text(row["n_no_chance"]),
    )
