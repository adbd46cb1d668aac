"""How large a difference is, apart from how sure: the difference itself, and Cohen's d_z."""

from __future__ import annotations

import math

import numpy as np

from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.units import SAME


def difference(differences: Floats, weights: Floats) -> float | None:
    """Return the weighted mean difference; None without any query."""
    total = math.fsum(weights)
    return math.fsum(differences * weights) / total if total > 0 else None


def cohens_d(differences: Floats, weights: Floats) -> float | None:
    """Return Cohen's d_z: the mean difference over the standard deviation of the differences.

    It is of queries, also where these are clustered: how far a query's difference lies from zero,
    by how much queries vary. Weighted: s^2 = n / (n - 1) * sum(w * (d - m)^2) / sum(w). Cohen,
    Statistical Power Analysis for the Behavioral Sciences, 1988, section 2.3.5.

    Args:
        differences: of each query that has a value.
        weights: of the same queries, above 0.

    Returns:
        None for fewer than two queries. 0 when all differences are 0, None when all are of one
        other value: there is no spread to measure by.
    """
    n, mean = differences.size, difference(differences, weights)
    if n < 2 or mean is None:
        return None
    residuals = differences - mean
    residuals[np.abs(residuals) <= SAME] = 0.0
    variance = n / (n - 1) * math.fsum(weights * residuals**2) / math.fsum(weights)
    if variance == 0:
        return 0.0 if abs(mean) <= SAME else None
    return mean / math.sqrt(variance)
