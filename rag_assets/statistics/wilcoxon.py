"""Wilcoxon's signed-rank test: whether large differences lie on one side.

The differences are ranked by magnitude and the ranks of either sign summed. Retrieval has many
queries on which two retrievers do the same, so zeros matter: they are ranked with the others and
then left out (Pratt, "Remarks on zeros and ties in the Wilcoxon signed rank procedures", 1959),
rather than left out first.

A rank has no place for a weight: each unit counts once, with its own (weighted) mean difference.
Without clusters weights so change nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag_assets.statistics.resampling import Floats

DECIMALS = 12
"""Differences are rounded to so many, so that those equal on paper share a rank."""

LARGE, FEW = 50, 13
"""Above so many units the normal approximation is used; of so few, ties are no hindrance."""


def wilcoxon_p_value(sums: Floats, weights: Floats) -> float | None:
    """Return the two-sided p.

    Up to 13 units it is exact, also with ties and zeros; up to 50 without ties and zeros as well;
    else it is by the normal approximation with the correction for ties.

    Args:
        sums: sum of weight * difference of each unit that has a value.
        weights: sum of the weights of the same units, above 0.

    Returns:
        1 when all differences are 0; None without any unit.
    """
    if sums.size == 0:
        return None
    differences = np.round(sums / weights, DECIMALS)
    if not differences.any():
        return 1.0
    magnitudes, groups, sizes = np.unique(
        np.abs(differences), return_inverse=True, return_counts=True
    )
    plain = magnitudes[0] > 0 and magnitudes.size == differences.size
    if differences.size <= (LARGE if plain else FEW):
        from scipy.stats import wilcoxon  # as long to import as all else of an evaluation's end

        return float(wilcoxon(differences, zero_method="pratt").pvalue)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[groups]
    n_zeros = int(sizes[0]) if magnitudes[0] == 0 else 0
    tied = sizes[1:] if n_zeros else sizes
    return _normal(float(ranks[differences > 0].sum()), differences.size, n_zeros, tied)


def _normal(rank_sum: float, n_units: int, n_zeros: int, tied: npt.NDArray[np.int64]) -> float:
    """Return p of the sum of the ranks of positive differences.

    Mean and variance are those for n units without the first ranks, which the zeros hold (Cureton,
    "The normal approximation to the signed-rank sampling distribution when zero differences are
    present", 1967); each group of t equal magnitudes takes (t^3 - t) / 48 from the variance.
    """
    from scipy.special import ndtr

    n, zeros = float(n_units), float(n_zeros)
    mean = n * (n + 1) / 4 - zeros * (zeros + 1) / 4
    spread = n * (n + 1) * (2 * n + 1) - zeros * (zeros + 1) * (2 * zeros + 1)
    sizes = tied.astype(np.float64)
    variance = (spread - float((sizes**3 - sizes).sum()) / 2) / 24
    return float(2 * ndtr(-abs((rank_sum - mean) / np.sqrt(variance))))
