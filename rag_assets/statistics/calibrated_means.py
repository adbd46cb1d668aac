"""Means of what a judge said, calibrated with human labels: values in [0, 1].

The interval of PPI++ covers too seldom where one class is rare among the labels: with a truth of
.95 and 50 labels .85 instead of .95, and refusing such draws does not help. Here Student's quantile
is used, variances divide by n - 1, and two pseudo-disagreements are added to the labelled units,
(label, verdict) = (1, 0) and (0, 1), each as heavy as an average unit: as Agresti and Coull add two
successes and two failures to a share. The estimate itself is without them. Under 50 labelled units
the verdicts have no part: the mean of the labels, and Wilson's interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rag_assets.statistics.prediction_powered import (
    NO_LABELS,
    Calibration,
    Estimate,
    calibration,
    prediction_powered,
    t_quantile,
)
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.units import Units, weighted_mean
from rag_assets.statistics.wilson import wilson

FEWEST_UNITS = 50
"""Labelled questions, or clusters, from which on verdicts take part."""

HUMAN_ONLY = "human labels only (Wilson)"
WITH_VERDICTS = "PPI++ with two pseudo-disagreements"

_PSEUDO_DISAGREEMENTS = np.array([[1.0, 0.0], [0.0, 1.0]])


def calibrated_mean(
    labels: Floats,
    verdicts_of_labelled: Floats,
    verdicts: Floats,
    *,
    clusters: tuple[Sequence[str], Sequence[str]] | None = None,
    weights: tuple[Floats, Floats] | None = None,
    level: float = 0.95,
) -> Estimate:
    """Estimate the mean that people would find if they labelled everything.

    Args:
        labels: shape (n,), in [0, 1]: of questions, or whole clusters, drawn at random from all.
        verdicts_of_labelled: shape (n,), in [0, 1]; NaN where the judge gave none.
        verdicts: shape (N,), of the unlabelled questions.
        clusters: names for the labelled and for the unlabelled questions; None: each is alone.
        weights: of the labelled and of the unlabelled questions in the mean; None: equal.
        level: of the interval.

    Raises:
        ValueError: lengths differ, a label is NaN or outside [0, 1], or a cluster is labelled in
            part.
    """
    if ((labels < 0) | (labels > 1)).any():
        raise ValueError("labels lie between 0 and 1")
    if labels.size == 0:
        return NO_LABELS
    units = calibration(labels, verdicts_of_labelled, verdicts, clusters, weights)
    n_units = len(units.labelled.sums)
    if n_units < FEWEST_UNITS or len(units.unlabelled.sums) < 2:
        return _of_labels_alone(units.labelled, labels.size, level)
    careful = prediction_powered(_with_pseudo_disagreements(units))
    value = prediction_powered(units, weight=careful.weight).value
    value = min(1.0, max(0.0, value))
    half = t_quantile(level, n_units) * careful.error
    low, high = careful.value - half, careful.value + half
    return Estimate(
        value,
        max(0.0, min(low, value)),
        min(1.0, max(high, value)),
        labels.size,
        WITH_VERDICTS,
        careful.weight,
    )


def _with_pseudo_disagreements(units: Calibration) -> Calibration:
    weights = units.labelled.weights
    average = math.fsum(weights[:, 0]) / len(weights)
    labelled = Units(
        np.concatenate([units.labelled.sums, _PSEUDO_DISAGREEMENTS * average]),
        np.concatenate([weights, np.full((2, 2), average)]),
    )
    return units._replace(labelled=labelled)


def _of_labels_alone(labelled: Units, n_labels: int, level: float) -> Estimate:
    sums, weights = labelled.column(0)
    value = weighted_mean(sums, weights)
    if value is None:
        return NO_LABELS
    # Units that weigh unequally are worth fewer equal ones (Kish, Survey Sampling, 1965).
    n_effective = math.fsum(weights) ** 2 / math.fsum(weights**2)
    return Estimate(value, *wilson(value, n_effective, level), n_labels, HUMAN_ONLY, 0.0)
