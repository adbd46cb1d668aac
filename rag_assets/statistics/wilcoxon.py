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

from rag_assets.statistics.resampling import Floats

DECIMALS = 12
"""Differences are rounded to so many, so that those equal on paper share a rank."""

MAX_EXACT = 13
"""Units with ties or zeros for which all choices of signs are looked at, as scipy does."""


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
    magnitudes = np.abs(differences[differences != 0])
    plain = magnitudes.size == differences.size == np.unique(magnitudes).size
    if differences.size <= MAX_EXACT and not plain:
        return _exact_p_value(differences)
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences, zero_method="pratt").pvalue)


def _exact_p_value(differences: Floats) -> float:
    """Return the share of all choices of signs whose sum of ranks is as far out, on two sides.

    scipy finds the same by computing each of the 2^n choices by itself: a second for 13 units.
    """
    _, places, counts = np.unique(np.abs(differences), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # of equal ones their mean
    positive_sum = ranks[differences > 0].sum()
    sums = np.zeros(1)
    for rank in ranks[differences != 0]:
        sums = np.concatenate([sums, sums + rank])
    # Ranks are halves, so sums are exact.
    return min(
        1.0, 2 * min(float(np.mean(sums <= positive_sum)), float(np.mean(sums >= positive_sum)))
    )
