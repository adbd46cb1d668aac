"""The smallest difference that so many queries can show.

A test that finds nothing says little when it could not have found anything. With the differences
varying as they do, a true difference of (t(1 - alpha / 2) + t(power)) * error is found at level
alpha with the given power; t are quantiles of Student's distribution with n - 1 degrees of freedom
and error is the standard error of the mean difference, over clusters where queries are clustered
(Sakai, Laboratory Experiments in Information Retrieval, 2018; Bloom, "Minimum detectable
effects", Evaluation Review 19, 1995).
"""

from __future__ import annotations

from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.t_test import spread

ALPHA = 0.05
"""Level of the two-sided test."""

POWER = 0.8
"""Chance to find the difference when it is there."""


def detectable_difference(sums: Floats, weights: Floats) -> float | None:
    """Return the minimum detectable difference, in units of the metric.

    Args:
        sums: sum of weight * difference of each unit that has a value.
        weights: sum of the weights of the same units, above 0.

    Returns:
        None when the differences show no spread: fewer than two units, or all differences equal.
    """
    from scipy.special import stdtrit

    difference = spread(sums, weights)
    if difference is None or difference.error == 0:
        return None
    freedom = difference.n_units - 1
    return float((stdtrit(freedom, 1 - ALPHA / 2) + stdtrit(freedom, POWER)) * difference.error)
