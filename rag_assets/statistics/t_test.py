"""Paired t-test: the mean difference in units of its standard error, by Student's distribution.

t = m / error with n - 1 degrees of freedom, n the number of units. Weights enter the mean and its
error (:mod:`rag_assets.statistics.standard_error`), a cluster is one observation. It assumes that
means of so many differences are normally distributed.
"""

from __future__ import annotations

from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.standard_error import spread
from rag_assets.statistics.units import SAME


def t_test_p_value(sums: Floats, weights: Floats) -> float | None:
    """Return the two-sided p.

    Args:
        sums: sum of weight * difference of each unit that has a value.
        weights: sum of the weights of the same units, above 0.

    Returns:
        1 when all differences are 0. None when there is no spread to compare with: fewer than two
        units, or all of one and the same difference.
    """
    from scipy.special import stdtr

    found = spread(sums, weights)
    if found is None:
        return None
    if found.error == 0:
        return 1.0 if abs(found.mean) <= SAME else None
    return float(2 * stdtr(found.n_units - 1, -abs(found.mean) / found.error))
