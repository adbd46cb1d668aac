"""How alike the results of one query are: the opposite of diversity.

Ziegler, McNee, Konstan and Lausen: Improving recommendation lists through topic diversification,
WWW 2005, add the similarities of all pairs of a list; here their mean is taken, so that lists of
different lengths compare.
"""

from __future__ import annotations

import numpy as np

from rag_assets.errors import UsageError
from rag_assets.models.unit_vectors import Vectors


def intra_list_similarity(vectors: Vectors, k: int) -> float | None:
    """Return the mean cosine of all pairs of the first ``k`` results.

    With S the sum of n unit vectors, the cosines of all ordered pairs add up to |S|^2, of which n
    are of a vector with itself: the mean is (|S|^2 - n) / (n (n - 1)).

    Args:
        vectors: unit vectors of the results in the order of their ranks, shape (results, d).
        k: how many count; all when there are fewer.

    Returns:
        From -1 to 1; None for fewer than two results, which have no pair.

    Raises:
        UsageError: ``k`` is below 1.
    """
    if k < 1:
        raise UsageError(f"k is {k}; at least 1 result must be looked at")
    first = vectors[:k].astype(np.float64)
    n = len(first)
    if n < 2:
        return None
    total = first.sum(axis=0)
    own = float((first * first).sum())
    return (float((total * total).sum()) - own) / (n * (n - 1))
