"""Paired differences of what a judge said of two systems, calibrated with human labels.

Plain PPI++ on D = Y_b - Y_a and F_b - F_a, question by question: a judge that is kinder to one
system is off by the same on labelled and unlabelled questions, and that is taken off. A test on
the verdicts alone would book its kindness to the system. Student's quantile, and variances that
divide by n - 1. With fewer than ten labelled differences other than 0 there is too little to judge
the spread by, and so no interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_assets.statistics.intervals import largest_value
from rag_assets.statistics.prediction_powered import (
    NO_LABELS,
    Estimate,
    calibration,
    prediction_powered,
    t_quantile,
)
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.units import SAME

FEWEST_DIFFERENCES = 10
"""Labelled units (questions, or clusters) that tell the two systems apart."""

HUMAN_ONLY = "human labels only (t)"
WITH_VERDICTS = "PPI++"


def calibrated_difference(
    labels: Floats,
    verdicts_of_labelled: Floats,
    verdicts: Floats,
    *,
    clusters: tuple[Sequence[str], Sequence[str]] | None = None,
    weights: tuple[Floats, Floats] | None = None,
    level: float = 0.95,
) -> Estimate:
    """Estimate the mean difference that people would find if they labelled everything.

    All are differences, second system minus first, of the same question. The estimate and its
    bounds are cut to what a mean difference can be: -1 to 1, or as large as the largest seen.

    Args:
        labels: shape (n,), of questions, or whole clusters, drawn at random from all.
        verdicts_of_labelled: shape (n,); NaN where the judge gave none to one of the two.
        verdicts: shape (N,), of the unlabelled questions.
        clusters: names for the labelled and for the unlabelled questions; None: each is alone.
        weights: of the labelled and of the unlabelled questions in the mean; None: equal.
        level: of the interval.

    Returns:
        An estimate without bounds, and with the reason, where people found too few differences.

    Raises:
        ValueError: lengths differ, a label is NaN, or a cluster is labelled in part.
    """
    if labels.size == 0:
        return NO_LABELS
    units = calibration(labels, verdicts_of_labelled, verdicts, clusters, weights)
    estimate = prediction_powered(units)
    method = HUMAN_ONLY if estimate.weight == 0 else WITH_VERDICTS
    largest = largest_value(labels, verdicts_of_labelled, verdicts)
    n_different = int(np.count_nonzero(np.abs(units.labelled.sums[:, 0]) > SAME))
    if n_different < FEWEST_DIFFERENCES:
        low = high = None
        subject = "label differs" if n_different == 1 else "labels differ"
        reason = f"only {n_different} {subject} between the two; {FEWEST_DIFFERENCES} are needed"
    else:
        half = t_quantile(level, len(units.labelled.sums)) * estimate.error
        low, high = (
            float(np.clip(estimate.value + sign * half, -largest, largest)) for sign in (-1, 1)
        )
        reason = None
    value = float(np.clip(estimate.value, -largest, largest))
    return Estimate(value, low, high, labels.size, method, estimate.weight, reason)
