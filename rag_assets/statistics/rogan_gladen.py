"""The Rogan-Gladen estimate: a share of verdicts, corrected with labels of another time.

With p the share of positive verdicts, q1 the judge's sensitivity and q0 its specificity:

    theta = (p + q0 - 1) / (q0 + q1 - 1)
    var = (p (1-p) / N + theta^2 q1 (1-q1) / m1 + (1-theta)^2 q0 (1-q0) / m0) / (q0 + q1 - 1)^2

(Rogan and Gladen, "Estimating prevalence from the results of a screening test", American Journal of
Epidemiology 107, 1978; for judges Lee et al., arXiv 2511.21140.) It holds when the share of what is
right has moved since the labels were given, which
:func:`rag_assets.statistics.calibrated_means.calibrated_mean` does not; but only while the judge's
two rates are the same, which labels of this evaluation do not need.
"""

from __future__ import annotations

import math

import numpy as np

from rag_assets.statistics.prediction_powered import NO_LABELS, Estimate
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.units import SAME

METHOD = "Rogan-Gladen, labels of another time"

SMALLEST_YOUDEN = 0.2
"""Sensitivity + specificity - 1 below which a judge tells too little to be inverted."""


def rogan_gladen(
    labels: Floats, verdicts_of_labelled: Floats, verdicts: Floats, *, level: float = 0.95
) -> Estimate:
    """Estimate the share of verdicts that people would have confirmed.

    Args:
        labels: shape (m,), 0 or 1: of any questions that the same judge was asked.
        verdicts_of_labelled: shape (m,), 0 or 1; a label whose verdict is NaN has no part.
        verdicts: shape (N,), 0, 1 or NaN, of the evaluation that is corrected.
        level: of the interval, by the normal distribution.

    Returns:
        An estimate whose ``weight`` is 1; without value, and with the reason, where labels or
        verdicts of one kind are missing or the judge hardly tells right from wrong.

    Raises:
        ValueError: lengths differ, or there is a value other than 0, 1 and NaN.
    """
    from scipy.special import ndtri

    if labels.shape != verdicts_of_labelled.shape or np.isnan(labels).any():
        raise ValueError("every labelled question needs a label and the place of a verdict")
    for values in (labels, verdicts_of_labelled, verdicts):
        if not np.isin(values[~np.isnan(values)], (0, 1)).all():
            raise ValueError("labels and verdicts are 0 or 1")
    if labels.size == 0:
        return NO_LABELS
    right, wrong = (_given(verdicts_of_labelled[labels == label]) for label in (1, 0))
    given = _given(verdicts)
    none = Estimate(None, None, None, labels.size, METHOD, 1.0)
    if not (right.size and wrong.size and given.size):
        return none._replace(reason="labels of both kinds, and verdicts, are needed")
    p, q1, q0 = given.mean(), right.mean(), 1 - wrong.mean()
    youden = q0 + q1 - 1
    if youden < SMALLEST_YOUDEN - SAME:
        return none._replace(
            reason=f"sensitivity + specificity - 1 is {youden:.2f}; {SMALLEST_YOUDEN} is needed"
        )
    value = min(1.0, max(0.0, float((p + q0 - 1) / youden)))
    variance = (
        p * (1 - p) / given.size
        + value**2 * q1 * (1 - q1) / right.size
        + (1 - value) ** 2 * q0 * (1 - q0) / wrong.size
    )
    half = float(ndtri((1 + level) / 2)) * math.sqrt(variance) / youden
    low, high = max(0.0, value - half), min(1.0, value + half)
    return Estimate(value, float(low), float(high), labels.size, METHOD, 1.0)


def _given(verdicts: Floats) -> Floats:
    return verdicts[~np.isnan(verdicts)]
