"""Standard error of a weighted mean over independent units."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.units import SAME, weighted_mean


class Spread(NamedTuple):
    """A weighted mean, its standard error, and the number of units behind it."""

    mean: float
    error: float
    n_units: int


def spread(sums: Floats, weights: Floats) -> Spread | None:
    """Return the mean m = sum(S) / sum(W) and its standard error.

    m is a ratio of two sums over units. Its error is that of the residuals
    e_i = (S_i - m * W_i) / mean(W), which is sd(e) / sqrt(n) with n - 1 in the variance (Cochran,
    Sampling Techniques, 1977, section 2.11). Where each unit is one query of weight 1 this is the
    ordinary standard error of a mean.

    Args:
        sums: S of the units that have a value.
        weights: W of the same units, above 0.

    Returns:
        None for fewer than two units. An error that is rounding alone is 0.
    """
    n_units = sums.size
    mean = weighted_mean(sums, weights)
    if n_units < 2 or mean is None:
        return None
    residuals = (sums - mean * weights) / (math.fsum(weights) / n_units)
    residuals[np.abs(residuals) <= SAME] = 0.0
    variance = math.fsum(residuals**2) / (n_units - 1)
    return Spread(mean, math.sqrt(variance / n_units), n_units)
