"""Which differences are decided, although somebody looks after every judgment.

Asked one by one, the next item is i with probability q(i) = rate(i) / sum of the rates that are
left (:mod:`.design`). So with c an item's weight in the difference of two systems, g its gain and m
its working value from the labels *before*,

    Z(n) = sum over seen of c g + sum over the others of c m + c(i) (g(i) - m(i)) / q(i)

has the full-label difference D as its expectation, given the past (Des Raj, 1956). With weights
a(n) = 1 / s2(n), s2 the variance that is expected of Z(n), the sum M of a (Z - D) is a martingale,
and exp(lambda M - lambda^2 V / 2), V = [M] / 3 + 2 <M> / 3, is a supermartingale for each lambda
(Delyon 2009, "Exponential inequalities for sums of weakly dependent variables"). Mixed over lambda
from a normal distribution it gives an interval that holds at all n at once with the level
(Howard, Ramdas, McAuliffe and Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence
sequences", section 3.2):

    |estimate - D| <= sqrt((V + rho) log((V + rho) / (rho alpha^2))) / sum of a

[M] is observed, with the last estimate in the place of D; <M> is the sum of a^2 s2, where s2 takes
the variances of the working values. Therefore it is exact but for these two.

Skipped items and "cannot tell" leave the items that can be asked. Taken to be missing at random,
they count their working value plus their share of the residuals of the judged ones, and the
interval is wider by the normal quantile of what they may differ from that. A pair begins with the
epoch in which all of its items were there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from rag_assets.errors import NotEstimable
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.logs import HIGHEST_GRADE
from rag_assets.labels.pool import POOL_RECALL, Flags, Floats, Integers, gains
from rag_assets.labels.sampling.estimates import Estimator, WorkingValues, features, fitted
from rag_assets.labels.sampling.label_sample import LabelSample

BEST_AT = 2.0
"""Judgments a question at which the interval is tightest for its level."""

FIRST_FIT, GROWTH = 30, 1.6
"""Working values are fitted after so many labels, then each time there are so many times more."""

USUAL_VARIANCE = 0.15
"""Of a gain between 0 and 1, to choose :data:`BEST_AT` by; no interval is wrong where it is."""

LOOKS_AHEAD = 64


class Decision(NamedTuple):
    """A difference a - b as far as it is known at this look.

    Attributes:
        value: the estimate of :class:`.estimates.Estimator`, as everywhere; the difference itself
            where it is known exactly.
        low, high: what every look so far allows.
        decided: whether they exclude 0, or the difference is known exactly.
        more_low, more_high: how many more judgments decide it if the difference is one standard
            error larger than its estimate, and one smaller; 0 when it is decided. A forecast from
            the estimate alone was half of what it took, or less, in a seventh of the cases.
    """

    value: float
    low: float
    high: float
    decided: bool
    more_low: int
    more_high: int

    @property
    def is_outside(self) -> bool:
        """Whether the estimate lies where an earlier look allows no value.

        Bounds only narrow, so one look that erred stays: seldom, but then one of the two is wrong.
        """
        return not self.low <= self.value <= self.high


@dataclass
class _Course:
    """All looks of all pairs, shape (pairs, looks), and what is left after the last one."""

    lows: Floats
    highs: Floats
    sums: Floats
    spread: Floats
    rho: Floats
    left: Flags
    variances: Floats
    exact: Floats
    is_known: Flags


def decisions(
    sample: LabelSample,
    metric: Metric,
    *,
    level: float = 0.95,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], Decision]:
    """Return (a, b) -> what is known of a - b, valid at every look.

    The level is that of each pair, over all looks together; without ``pairs`` all are told.
    """
    systems = sample.pool.systems
    chosen = list(combinations(systems, 2)) if pairs is None else list(pairs)
    contrasts = contrasts_of(sample, metric, chosen)
    course = course_of(sample, metric, contrasts, 1 - level)
    estimates = Estimator(sample, metric).differences("items", level, chosen).values()
    values, errors = np.array([estimate[:2] for estimate in estimates]).reshape(-1, 2).T
    sizes = np.abs(values) + errors, np.maximum(np.abs(values) - errors, 0.0)
    more = zip(*(_forecast(sample, contrasts, course, s, 1 - level) for s in sizes), strict=True)
    is_exact = course.is_known
    estimated = values, course.lows.max(axis=1), course.highs.min(axis=1)
    columns = (*(np.where(is_exact, course.exact, numbers) for numbers in estimated), is_exact)
    decisions = {}
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for pair, (value, low, high, is_known), left in zip(chosen, rows, more, strict=True):
        # bounds that exclude everything decide nothing
        decided = is_known or (low > 0) != (high < 0)
        decisions[pair] = Decision(value, low, high, decided, *((0, 0) if decided else left))
    return decisions


def contrasts_of(sample: LabelSample, metric: Metric, pairs: Sequence[tuple[str, str]]) -> Floats:
    """Return what each item counts in the difference of each pair, shape (pairs, items).

    Raises:
        NotEstimable: the metric is a ratio, or no sum over items at all.
    """
    if metric.measure == POOL_RECALL:
        raise NotEstimable(f"{metric} is a ratio; decisions need dcg@k or precision@k")
    weights = sample.pool.weights(metric) / max(len(sample.pool.question_ids), 1)
    numbers = {system: number for number, system in enumerate(sample.pool.systems)}
    firsts, seconds = ([numbers[pair[side]] for pair in pairs] for side in (0, 1))
    return np.asarray(weights[firsts] - weights[seconds])


def course_of(sample: LabelSample, metric: Metric, contrasts: Floats, alpha: float) -> _Course:
    """Return all looks, from a walk through the items in the order in which they were asked."""
    from scipy.special import ndtri

    earned = gains(metric, sample.grades)
    order = sample.design.order()
    steps = order[(sample.asked & sample.pool.counted)[order]]
    judged = ~np.isnan(earned[steps])
    traits = features(sample.pool.weights(metric), sample.verdicts.values())
    left = ~sample.certain & sample.pool.counted
    past = contrasts @ np.where(left | np.isnan(earned), 0.0, earned)
    squares = contrasts**2
    parts: list[tuple[Floats, Floats, Floats]] = []
    absent, n_missing = np.zeros(len(contrasts)), np.cumsum(~judged)
    n_judged = np.maximum(np.cumsum(judged), 1)
    half = float(gains(metric, np.array([float(HIGHEST_GRADE)]))[0]) / 2
    # No gain is farther from the middle, so that is safe before anything was seen.
    working = WorkingValues(np.full(len(earned), half), np.full(len(earned), half**2))
    scale = BEST_AT * len(sample.pool.question_ids) / 8 / (USUAL_VARIANCE * (2 * half) ** 2)
    rho = np.zeros(len(contrasts))
    for block, rates in _blocks(sample, steps):
        seen = steps[: block.start][judged[: block.start]]
        if block.start >= FIRST_FIT and len(seen):
            clock = sample.design.arrivals()[steps[block.start]]
            p = sample.design.probabilities(clock)[seen]
            working = fitted(traits[seen], earned[seen], p, traits)
        here = steps[block]
        both = contrasts, squares
        z, s2 = _block(both, here, judged[block], earned, working, rates, left, past)
        missed = np.cumsum(squares[:, here] * working.variances[here] * ~judged[block], 1)
        missed = (absent[:, None] + missed) * (1 + n_missing[block] / n_judged[block])
        labelled = steps[: block.stop][judged[: block.stop]]
        residuals = contrasts[:, labelled] * (earned - working.values)[labelled]
        z += np.cumsum(residuals, 1)[:, len(seen) :] * (n_missing / n_judged)[block][judged[block]]
        parts.append((z, s2, missed[:, judged[block]]))
        rho = np.where(rho > 0, rho, scale * _precision(squares, rates, left))
        left[here] = False
        answered = here[judged[block]]
        past = past + contrasts[:, answered] @ earned[answered]
        missing = here[~judged[block]]
        past = past + contrasts[:, missing] @ working.values[missing]
        absent = absent + squares[:, missing] @ working.variances[missing]
    unknown = left.copy()
    unknown[steps[~judged]] = True
    is_known = ~(contrasts[:, unknown] != 0).any(axis=1)
    # Add up the steps; the first look is before any label.
    nothing = np.zeros((len(past), 1))
    z = np.hstack([nothing, *(part[0] for part in parts)])
    a = np.hstack([nothing, *(1.0 / part[1] for part in parts)])
    sums = np.cumsum(a, axis=1)  # also of a^2 s2, which is a
    products = np.cumsum(a * z, axis=1)
    value = np.divide(products, sums, out=np.zeros_like(sums), where=sums > 0)
    before = np.hstack([nothing, value[:, :-1]])
    spread = np.cumsum((a * (z - before)) ** 2, axis=1)
    missed = np.hstack([nothing, *(part[2] for part in parts)])
    radius = _radius(spread, sums, rho[:, None], alpha)
    radius = radius + ndtri(1 - alpha / 2) * np.sqrt(missed)
    lows, highs = value - radius, value + radius
    lows[is_known, -1] = highs[is_known, -1] = past[is_known]
    return _Course(lows, highs, sums, spread, rho, left, working.variances, past, is_known)


def _blocks(sample: LabelSample, steps: Integers) -> Iterator[tuple[slice, Floats]]:
    """Yield runs of steps with one fit and one epoch, and the rates of that epoch."""
    edges = [0, FIRST_FIT]
    while edges[-1] < len(steps):
        edges.append(math.ceil(edges[-1] * GROWTH))
    arrivals = sample.design.arrivals()[steps]
    epochs = np.searchsorted(arrivals, sample.design.starts[1:], side="right").tolist()
    cuts = sorted({edge for edge in (*edges, *epochs, len(steps)) if edge <= len(steps)})
    for start, end in pairwise(cuts):
        yield slice(start, end), sample.design.rates[sum(start >= edge for edge in epochs)]


def _block(
    weights: tuple[Floats, Floats],
    here: Integers,
    judged: Flags,
    earned: Floats,
    working: WorkingValues,
    rates: Floats,
    left: Flags,
    past: Floats,
) -> tuple[Floats, Floats]:
    """Return Z and s2 of the judged steps of a block; s2 is infinite where Z says nothing.

    ``weights`` are the contrasts and their squares.
    """
    contrasts, squares = weights
    values, variances = working
    c = contrasts[:, here]
    gain = np.where(judged, earned[here], values[here])

    def before(terms: Floats) -> Floats:
        """Return the sums over the steps of the block that were before each."""
        return np.cumsum(terms, axis=-1) - terms

    total_rate = rates[left].sum() - before(rates[here])
    base = past + contrasts @ np.where(left, values, 0.0)
    z = base[:, None] + before(c * (gain - values[here]))
    z = z + c * (gain - values[here]) / rates[here] * total_rate
    per_rate = np.divide(variances, rates, out=np.zeros_like(rates), where=left & (rates > 0))
    whole = squares @ per_rate
    rest = whole[:, None] - before(c**2 * per_rate[here])
    usable = (_precision(squares, rates, left) > 0)[:, None] & (rest > 1e-9 * whole[:, None])
    s2 = np.where(usable, rest * total_rate, np.inf)
    return z[:, judged], s2[:, judged]


def _precision(squares: Floats, rates: Floats, left: Flags) -> Floats:
    """Return 1 / variance of Z for gains of variance 1; 0 where an item cannot be drawn yet."""
    can = left & (rates > 0)
    per_rate = np.divide(1.0, rates, out=np.zeros_like(rates), where=can)
    variance = (squares @ per_rate) * rates[can].sum()
    covered = ~(squares[:, left & ~can] > 0).any(axis=1) & (variance > 0)
    return np.asarray(np.divide(1.0, variance, out=np.zeros(len(squares)), where=covered))


def _radius(spread: Floats, sums: Floats, rho: Floats, alpha: float) -> Floats:
    """Return half the width of the interval; infinite before the first label."""
    mixed = spread / 3 + 2 * sums / 3 + rho
    ratio = np.divide(mixed, rho * alpha**2, out=np.ones_like(mixed), where=rho > 0)
    width, unbounded = np.sqrt(mixed * np.log(ratio)), np.full_like(sums, np.inf)
    return np.divide(width, sums, out=unbounded, where=sums > 0)


def _forecast(
    sample: LabelSample, contrasts: Floats, course: _Course, sizes: Floats, alpha: float
) -> list[int]:
    """Return how many more judgments decide differences of these sizes, shape (pairs,).

    Labels are taken to go on as expected. At most all that are left: then everything is known.
    """
    rates = np.where(course.left, sample.design.rates[-1], 0.0)
    n_left = int(course.left.sum())
    if not rates.any():
        return [n_left] * len(contrasts)
    slowest, mean = rates[rates > 0].min(), rates[rates > 0].mean()
    clocks = np.geomspace(0.5 / (mean * n_left), 5.0 / slowest, LOOKS_AHEAD)
    remain = np.exp(-np.outer(rates, clocks))
    n_more = n_left - remain[course.left].sum(axis=0)
    per_rate = np.divide(course.variances, rates, out=np.zeros_like(rates), where=rates > 0)
    s2 = (contrasts**2) @ (per_rate[:, None] * remain) * (rates @ remain)
    steps = np.diff(n_more, prepend=0.0) / np.maximum(s2, 1e-300)
    spread, last = course.spread[:, -1:], course.sums[:, -1:]
    sums = last + np.cumsum(steps, axis=1)
    ratio = np.divide(spread, last, out=np.ones_like(last), where=last > 0)
    radius = _radius(ratio * sums, sums, course.rho[:, None], alpha)
    reached = radius < sizes[:, None]
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), -1)
    return [math.ceil(n_more[look]) if look >= 0 else n_left for look in first]
