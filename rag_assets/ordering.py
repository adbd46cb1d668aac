"""The one order of rankings: score descending, then id descending by UTF-8 bytes, exact at a cut.

This is the order in which ``trec_eval`` reads a run (``form_res_rels.c``: ``strcmp`` of the ids,
descending, among equal scores), so what is stored as rank 1, 2, 3 is what any tool evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import isqrt
from operator import lt

import numpy as np
import numpy.typing as npt

from rag_assets.errors import DataError, UsageError

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Hits:
    """The best items of one query, best first.

    Attributes:
        positions: the items, as positions in the ids of what was searched; int64, shape (n,).
        scores: their scores; float64, shape (n,).
    """

    positions: Positions
    scores: npt.NDArray[np.float64]


def byte_order_ranks(ids: Sequence[str]) -> Positions:
    """Return for each id its position, from 0, among all ids in ascending order of UTF-8 bytes.

    UTF-8 keeps the order of code points, by which Python compares strings: nothing is encoded. An
    id that occurs twice is an error: the order would not be defined.
    """
    if all(map(lt, ids, islice(ids, 1, None))):
        return np.arange(len(ids), dtype=np.int64)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for first, second in pairwise(order):
        if ids[first] == ids[second]:
            raise DataError(f"id '{ids[first]}' occurs twice; ids of ranked items must be unique")
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[order] = np.arange(len(ids), dtype=np.int64)
    return ranks


def top_k(
    scores: npt.NDArray[np.floating], ids_rank: Positions, k: int, *, above: float | None = None
) -> Positions:
    """Return the positions of the best ``k`` items, best first.

    Exact at the cut: every item tied with the k-th score takes part in the sort, then the list is
    cut. (Partial selections such as ``argpartition`` keep an arbitrary part of that tie.)

    Args:
        scores: the items' scores, shape (n,); none is NaN.
        ids_rank: ``byte_order_ranks`` of the items' ids, shape (n,).
        k: how many items at most, from 1.
        above: only items that score more than this are taken; None takes all.
    """
    if scores.size and np.isnan(scores.min()):  # min() hands a NaN on, and needs no further array
        raise DataError(f"score of item {int(np.argmax(np.isnan(scores)))} is NaN")
    return _best(scores, ids_rank, k, above)


def best_above_zero(scores: npt.NDArray[np.float64], ids_rank: Positions, k: int) -> Hits:
    """Return the best ``k`` items of those that score above 0, as :func:`top_k`; none is NaN."""
    best = _best(scores, ids_rank, k, 0.0)
    return Hits(best, scores[best])


def best_of_each(scores: npt.NDArray[np.float64], ids_rank: Positions, k: int) -> list[Hits]:
    """Return the best of each row of scores, shape (queries, items), as :func:`best_above_zero`.

    With some thousand items, a call of numpy takes longer than its work, so all rows share a few.
    """
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    n_queries, n = scores.shape
    least: npt.NDArray[np.floating] = np.zeros((n_queries, 1))
    if k <= n:  # the k-th highest maximum of groups of items is at most the k-th highest score
        size = max(1, n // max(4 * k, isqrt(k * n)))
        groups = scores[:, : n // size * size].reshape(n_queries, size, n // size)  # a view
        least = kth_highest(groups.max(axis=1), k)
    cells = (scores >= np.maximum(least, np.nextafter(0, 1))).ravel().nonzero()[0]
    queries, positions = np.divmod(cells, max(1, n))
    values = scores.ravel()[cells]
    order = np.lexsort((ids_rank[positions], values, -queries))[::-1]
    counts = np.bincount(queries, minlength=n_queries)
    starts = np.repeat(counts.cumsum() - counts, counts)
    best = order[np.arange(order.size) - starts < k]
    positions, values = positions[best], values[best]
    ends = np.minimum(counts, k).cumsum().tolist()
    return [Hits(positions[start:end], values[start:end]) for start, end in pairwise([0, *ends])]


def kth_highest(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.floating]:
    """Return the k-th highest of at least ``k`` values, or of each row of them; shape (..., 1).

    They are negated first: numpy's partition of values of which most are the lowest takes some 20
    times as long for a high place as for a low one.
    """
    negated = -values
    negated.partition(k - 1)
    highest: npt.NDArray[np.floating] = -negated[..., k - 1 : k]
    return highest


_SAMPLED_FROM = 4_096
"""Of fewer scores, looking at a part first takes longer."""


def _best(
    scores: npt.NDArray[np.floating], ids_rank: Positions, k: int, above: float | None
) -> Positions:
    """Return the best ``k`` by a sort of few: of what reaches the k-th best of a part.

    That is never above the k-th best of all. The part is every n-th item, n = sqrt(items / k) / 4,
    so that both it and what reaches its k-th best are small.
    """
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    step = max(1, isqrt(scores.size // k) // 4) if scores.size > _SAMPLED_FROM else 1
    at_least = kth_highest(scores[::step], k).item() if scores.size >= k else -np.inf
    reach = scores >= at_least if above is None or at_least > above else scores > above
    candidates = reach.nonzero()[0]
    values = scores[candidates]
    if values.size > k + 64:  # fewer are sorted in less time than the lowest are sorted out
        reaches_cut = (values >= kth_highest(values, k)).nonzero()[0]
        candidates, values = candidates[reaches_cut], values[reaches_cut]
    ascending = np.lexsort((ids_rank[candidates], values))
    best: Positions = candidates[ascending[::-1][:k]]
    return best
