"""Prediction-powered means: a few human labels correct what a judge said of everything.

n units have a label Y and a verdict F, N others a verdict alone:

    theta = lambda * mean_N(F) + mean_n(Y - lambda * F)

is unbiased for a lambda that is fixed beforehand, whatever the judge does, because what it says of
the labelled is taken off again; a judge that is worth nothing makes it no narrower than the labels
alone. The weight is PPI++'s, which is tuned on the same labels: that biases the mean by up to .2
standard errors with 50 labels, by less with more.
lambda = cov_n(Y, F) / ((1 + n / N) * var_{n+N}(F)) within [0, 1], and the variance
lambda^2 * var_N(F) / N + var_n(Y - lambda * F) / n (Angelopoulos, Duchi and Zrnic, "PPI++:
Efficient Prediction-Powered Inference", arXiv 2311.01453; the package ``ppi_py``).

Units are questions, or whole clusters of them: a mean is then the ratio sum(S) / sum(W) of sums
over units, and its error that of the residuals (S - mean * W) / mean(W), as in
:func:`rag_assets.statistics.t_test.spread`. Labels have to be of units drawn at random from all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.units import Units, units_of


class Estimate(NamedTuple):
    """A calibrated number.

    Attributes:
        value: the estimate; None without any human label.
        low: lower bound of the interval; None when there is none.
        high: upper bound.
        n_labels: human labels behind it.
        method: how it was estimated.
        weight: of the verdicts, lambda; 0 where they had no part.
        reason: why there is no interval.
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
    """What an estimate is made of, by unit.

    Attributes:
        labelled: two columns, label and verdict, of the units that people labelled.
        unlabelled: one column, the verdict, of the others.
    """

    labelled: Units
    unlabelled: Units


class PredictionPowered(NamedTuple):
    """theta, its standard error (NaN for a single labelled unit), and lambda."""

    value: float
    error: float
    weight: float


def calibration(
    labels: Floats,
    verdicts_of_labelled: Floats,
    verdicts: Floats,
    clusters: tuple[Sequence[str], Sequence[str]] | None,
    weights: tuple[Floats, Floats] | None,
) -> Calibration:
    """Gather questions into units.

    The mean of all other verdicts stands in the place of a missing one: it says nothing, and
    says it of labelled and unlabelled questions alike, so the estimate stays valid.

    Args:
        labels: shape (n,), no NaN: what cannot be told is no label, and its question is left out.
        verdicts_of_labelled: shape (n,); NaN where the judge gave none.
        verdicts: shape (N,), of the unlabelled questions.
        clusters: names for the labelled and for the unlabelled questions; None: each is alone.
        weights: of the labelled and of the unlabelled questions in the mean, above 0; None: equal.

    Raises:
        ValueError: lengths differ, a label is NaN, or a cluster is labelled in part.
    """
    if labels.shape != verdicts_of_labelled.shape or np.isnan(labels).any():
        raise ValueError("every labelled question needs a label and the place of a verdict")
    if clusters is not None and not set(clusters[0]).isdisjoint(clusters[1]):
        raise ValueError("a cluster is labelled as a whole or not at all")
    every = np.concatenate([verdicts_of_labelled, verdicts])
    given = every[~np.isnan(every)]
    neutral = _sum(given) / given.size if given.size else 0.0
    every = np.where(np.isnan(every), neutral, every)
    columns = np.column_stack([labels, every[: labels.size]]), every[labels.size :, None]
    labelled, unlabelled = (
        _units(
            values,
            np.ones(len(values)) if weights is None else weights[part],
            None if clusters is None else clusters[part],
        )
        for part, values in enumerate(columns)
    )
    return Calibration(labelled, unlabelled)


def _units(values: Floats, weights: Floats, clusters: Sequence[str] | None) -> Units:
    if clusters is not None:
        return units_of(values, weights, clusters)
    return Units(values * weights[:, None], np.repeat(weights[:, None], values.shape[1], axis=1))


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
    everywhere = Units(
        *(
            np.concatenate([own[:, 1:], others])
            for own, others in zip(
                (units.labelled.sums, units.labelled.weights),
                (units.unlabelled.sums, units.unlabelled.weights),
                strict=True,
            )
        )
    )
    spread = _variance(_residuals(everywhere, 0)[1], 1)
    if not spread > 0:
        return 0.0
    n, n_unlabelled = labels.size, len(units.unlabelled.sums)
    covariance = _sum(labels * verdicts) / n
    return min(1.0, max(0.0, covariance / ((1 + n / n_unlabelled) * spread)))


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
