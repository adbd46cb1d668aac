"""Means and differences of a judge's verdicts, corrected with a few labels of people.

**Prediction-powered.** n units have a label Y and a verdict F, N others a verdict alone:

    theta = lambda * mean_N(F) + mean_n(Y - lambda * F)

is unbiased for a fixed lambda, whatever the judge does, because what it says of the labelled is
taken off again. The weight is PPI++'s, tuned on the same labels, which biases the mean by up to .2
standard errors with 50 labels: lambda = cov_n(Y, F) / ((1 + n / N) * var_{n+N}(F)) within [0, 1],
and the variance lambda^2 * var_N(F) / N + var_n(Y - lambda * F) / n (Angelopoulos, Duchi and
Zrnic, arXiv 2311.01453; the package ``ppi_py``). Variances divide by n - 1, intervals are by
Student's quantile. Units are questions, or whole clusters of them, drawn at random from all: a mean
is the ratio sum(S) / sum(W), and its error that of the residuals (S - mean * W) / mean(W).

**Means** lie in [0, 1]. The interval of PPI++ covers too seldom where one class is rare among the
labels (truth .95, 50 labels: .85 instead of .95). So two pseudo-disagreements are added to the
labelled units, (label, verdict) = (1, 0) and (0, 1), each as heavy as an average unit; the estimate
itself is without them. Under 50 labelled units the verdicts have no part: the mean of the labels,
and Wilson's interval.

**Differences** are plain PPI++ on D = Y_b - Y_a and F_b - F_a, question by question: a judge that
is kinder to one system is off by the same on labelled and unlabelled questions, and that is taken
off. With fewer than ten labelled differences other than 0 there is no interval.

**Rogan and Gladen** correct a share with labels of another time. With p the share of positive
verdicts, q1 the judge's sensitivity and q0 its specificity:

    theta = (p + q0 - 1) / (q0 + q1 - 1)
    var = (v(p) + theta^2 v(q1) + (1-theta)^2 v(q0)) / (q0 + q1 - 1)^2

(American Journal of Epidemiology 107, 1978; for judges Lee et al., arXiv 2511.21140.) v(q) is
q (1-q) / m with one success and one failure added to the m values (as Lang and Reiczigel 2014 do).
It holds when the share of what is right has moved since the labels were given, which
:func:`calibrated_mean` does not; but only while the judge's two rates are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_assets.statistics.intervals import largest_value, wilson
from rag_assets.statistics.units import SAME, Floats, Units, units_of, weighted_mean

FEWEST_UNITS = 50
"""Labelled questions, or clusters, from which on verdicts take part in a mean."""

FEWEST_DIFFERENCES = 10
"""Labelled units (questions, or clusters) that tell the two systems apart."""

SMALLEST_YOUDEN = 0.2
"""Sensitivity + specificity - 1 below which a judge tells too little to be inverted."""

HUMAN_MEAN, POWERED_MEAN = "human labels only (Wilson)", "PPI++ with two pseudo-disagreements"
HUMAN_DIFFERENCE, POWERED_DIFFERENCE = "human labels only (t)", "PPI++"
ROGAN_GLADEN = "Rogan-Gladen, labels of another time"
"""How an estimate was made."""

_PSEUDO_DISAGREEMENTS = np.array([[1.0, 0.0], [0.0, 1.0]])

Clusters = tuple[Sequence[str], Sequence[str]]
"""Names for the labelled and for the unlabelled questions."""

Weights = tuple[Floats, Floats]
"""Of the labelled and of the unlabelled questions in the mean, above 0."""


class Estimate(NamedTuple):
    """A calibrated number and its interval; what is None is not known.

    ``weight`` is lambda, that of the verdicts; ``reason`` says why there is no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    n_labels: int
    method: str
    weight: float
    reason: str | None = None


NO_LABELS = Estimate(None, None, None, 0, "none", 0.0, "there is no human label")


class Calibration(NamedTuple):
    """Units with label and verdict (two columns), and others with a verdict alone (one column)."""

    labelled: Units
    unlabelled: Units


class PredictionPowered(NamedTuple):
    """theta, its standard error (NaN for a single labelled unit), and lambda."""

    value: float
    error: float
    weight: float


def calibrated_mean(
    labels: Floats,
    verdicts_of_labelled: Floats,
    verdicts: Floats,
    *,
    clusters: Clusters | None = None,
    weights: Weights | None = None,
    level: float = 0.95,
) -> Estimate:
    """Estimate the mean by labels from people if they labelled everything.

    Args:
        labels: shape (n,), in [0, 1]: of questions, or whole clusters, drawn at random from all.
        verdicts_of_labelled: shape (n,), in [0, 1]; NaN where the judge gave none.
        verdicts: shape (N,), of the unlabelled questions.
        clusters: None: each question is alone.
        weights: None: equal.
        level: of the interval.
    """
    if labels.size == 0:
        return NO_LABELS
    units = calibration(labels, verdicts_of_labelled, verdicts, clusters, weights)
    n_units = len(units.labelled.sums)
    sums, unit_weights = units.labelled.column(0)
    if n_units < FEWEST_UNITS or len(units.unlabelled.sums) < 2:
        mean = weighted_mean(sums, unit_weights) or 0.0
        # Units that weigh unequally are worth fewer equal ones (Kish, Survey Sampling, 1965).
        n_effective = math.fsum(unit_weights) ** 2 / math.fsum(unit_weights**2)
        return Estimate(mean, *wilson(mean, n_effective, level), labels.size, HUMAN_MEAN, 0.0)
    careful = prediction_powered(_with_pseudo_disagreements(units))
    value = min(1.0, max(0.0, prediction_powered(units, weight=careful.weight).value))
    half = t_quantile(level, n_units) * careful.error
    low = max(0.0, min(careful.value - half, value))
    high = min(1.0, max(careful.value + half, value))
    return Estimate(value, low, high, labels.size, POWERED_MEAN, careful.weight)


def calibrated_difference(
    labels: Floats,
    verdicts_of_labelled: Floats,
    verdicts: Floats,
    *,
    clusters: Clusters | None = None,
    weights: Weights | None = None,
    level: float = 0.95,
) -> Estimate:
    """Estimate the mean difference that people would find if they labelled everything.

    All are differences, second system minus first, of the same question; arguments are those of
    :func:`calibrated_mean`. The estimate and its bounds are cut to what a mean difference can be.
    It has no bounds, and a reason, where people found too few differences.
    """
    if labels.size == 0:
        return NO_LABELS
    units = calibration(labels, verdicts_of_labelled, verdicts, clusters, weights)
    estimate = prediction_powered(units)
    method = HUMAN_DIFFERENCE if estimate.weight == 0 else POWERED_DIFFERENCE
    largest = largest_value(labels, verdicts_of_labelled, verdicts)
    value = float(np.clip(estimate.value, -largest, largest))
    n_different = int(np.count_nonzero(np.abs(units.labelled.sums[:, 0]) > SAME))
    if n_different < FEWEST_DIFFERENCES:
        subject = "label differs" if n_different == 1 else "labels differ"
        reason = f"only {n_different} {subject} between the two; {FEWEST_DIFFERENCES} are needed"
        return Estimate(value, None, None, labels.size, method, estimate.weight, reason)
    half = t_quantile(level, len(units.labelled.sums)) * estimate.error
    low, high = np.clip([estimate.value - half, estimate.value + half], -largest, largest)
    return Estimate(value, float(low), float(high), labels.size, method, estimate.weight)


def rogan_gladen(
    labels: Floats, verdicts_of_labelled: Floats, verdicts: Floats, *, level: float = 0.95
) -> Estimate:
    """Estimate the share of verdicts that people would have confirmed, by labels of another time.

    Labels and verdicts are 0 or 1; a verdict may be NaN. The estimate has no value, and a reason,
    where labels or verdicts of one kind are missing or the judge hardly tells right from wrong.
    """
    from scipy.special import ndtri

    if labels.size == 0:
        return NO_LABELS
    right, wrong, given = (
        values[~np.isnan(values)]
        for values in (
            verdicts_of_labelled[labels == 1],
            verdicts_of_labelled[labels == 0],
            verdicts,
        )
    )
    none = Estimate(None, None, None, labels.size, ROGAN_GLADEN, 1.0)
    if not (right.size and wrong.size and given.size):
        return none._replace(reason="labels of both kinds, and verdicts, are needed")
    p, q1, q0 = given.mean(), right.mean(), 1 - wrong.mean()
    youden = q0 + q1 - 1
    if youden < SMALLEST_YOUDEN - SAME:
        reason = f"sensitivity + specificity - 1 is {youden:.2f}; {SMALLEST_YOUDEN} is needed"
        return none._replace(reason=reason)
    value = min(1.0, max(0.0, float((p + q0 - 1) / youden)))
    variance = (
        _variance_of_share(given)
        + value**2 * _variance_of_share(right)
        + (1 - value) ** 2 * _variance_of_share(wrong)
    )
    half = float(ndtri((1 + level) / 2)) * math.sqrt(variance) / youden
    low, high = max(0.0, value - half), min(1.0, value + half)
    return none._replace(value=value, low=float(low), high=float(high))


def _variance_of_share(values: Floats) -> float:
    n = values.size + 2
    share = float(values.sum() + 1) / n
    return share * (1 - share) / n


def calibration(
    labels: Floats,
    verdicts_of_labelled: Floats,
    verdicts: Floats,
    clusters: Clusters | None = None,
    weights: Weights | None = None,
) -> Calibration:
    """Gather questions into units; arguments are those of :func:`calibrated_mean`.

    The mean of all other verdicts stands in the place of a missing one: it says the same of
    labelled and unlabelled questions, so the estimate stays valid.
    """
    every = np.concatenate([verdicts_of_labelled, verdicts])
    given = every[~np.isnan(every)]
    neutral = _sum(given) / given.size if given.size else 0.0
    every = np.where(np.isnan(every), neutral, every)
    columns = np.column_stack([labels, every[: labels.size]]), every[labels.size :, None]
    labelled, unlabelled = (
        units_of(values, weights and weights[part], clusters and clusters[part])
        for part, values in enumerate(columns)
    )
    return Calibration(labelled, unlabelled)


def _with_pseudo_disagreements(units: Calibration) -> Calibration:
    sums, weights = units.labelled.sums, units.labelled.weights
    average = math.fsum(weights[:, 0]) / len(weights)
    labelled = Units(
        np.concatenate([sums, _PSEUDO_DISAGREEMENTS * average]),
        np.concatenate([weights, np.full((2, 2), average)]),
    )
    return units._replace(labelled=labelled)


def prediction_powered(
    units: Calibration, *, weight: float | None = None, ddof: int = 1
) -> PredictionPowered:
    """Return theta, its standard error and the weight of the verdicts.

    Args:
        units: at least one labelled one.
        weight: lambda; None: PPI++'s. 1 is PPI as first published, and 0 the labels alone.
        ddof: what the variances divide by is the number of units less this; ``ppi_py`` has 0.
    """
    label_mean, label_residuals = _residuals(units.labelled, 0)
    verdict_mean, verdict_residuals = _residuals(units.labelled, 1)
    n, n_unlabelled = label_residuals.size, len(units.unlabelled.sums)
    if n_unlabelled <= ddof:
        weight = 0.0
    if weight is None:
        weight = _optimal_weight(units, label_residuals, verdict_residuals)
    value = label_mean - weight * verdict_mean
    variance = _variance(label_residuals - weight * verdict_residuals, ddof) / n
    if weight:
        mean, residuals = _residuals(units.unlabelled, 0)
        value += weight * mean
        variance += weight**2 * _variance(residuals, ddof) / n_unlabelled
    return PredictionPowered(value, math.sqrt(variance), weight)


def _optimal_weight(units: Calibration, labels: Floats, verdicts: Floats) -> float:
    labelled, unlabelled = units
    everywhere = Units(
        np.concatenate([labelled.sums[:, 1:], unlabelled.sums]),
        np.concatenate([labelled.weights[:, 1:], unlabelled.weights]),
    )
    spread = _variance(_residuals(everywhere, 0)[1], 1)
    if not spread > 0:
        return 0.0
    covariance = _sum(labels * verdicts) / labels.size
    ratio = labels.size / len(unlabelled.sums)
    return min(1.0, max(0.0, covariance / ((1 + ratio) * spread)))


def _residuals(units: Units, column: int) -> tuple[float, Floats]:
    """Return sum(S) / sum(W), and (S - mean * W) / mean(W) of each unit."""
    sums, weights = units.sums[:, column], units.weights[:, column]
    total = _sum(weights)
    mean = _sum(sums) / total
    return mean, (sums - mean * weights) / (total / weights.size)


def _variance(residuals: Floats, ddof: int) -> float:
    freedom = residuals.size - ddof
    return _sum(residuals**2) / freedom if freedom > 0 else math.nan


def _sum(values: Floats) -> float:
    return math.fsum(values.tolist())  # exact, and five times faster than over an array


def t_quantile(level: float, n_units: int) -> float:
    """Return how many standard errors an interval of this level reaches to either side."""
    from scipy.special import stdtrit

    return float(stdtrit(n_units - 1, (1 + level) / 2))
