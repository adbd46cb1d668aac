"""Which chunks can be among the best of a query: MaxScore, which reads few of the frequent words.

Words are read from the rarest on. What a word weighs is at most its highest weight. So once the
k-th best sum so far is above all that the words left can add, a chunk without any of the words read
is not among the best, and of the others only those are that can still reach the k-th (Turtle and
Flood: Query evaluation: strategies and optimizations, 1995, section 4). Sums here are rough: they
are in no certain order, and compared with a margin wider than any rounding of float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np

from rag_assets.ordering import kth_highest
from rag_assets.retrieval.array_folder import Entries, Floats, Ints

MARGIN = 1e-9
"""Share of a sum by which it may be off: thousands of words, of 2**-53 each, are less."""

DENSE_SHARE = 8
"""Where more than one entry in so many chunks would be read, all sums take less time."""


class Word(Protocol):
    """A word of a query, as far as it is read."""

    @property
    def holding(self) -> int:
        """How many chunks hold it."""

    @property
    def highest(self) -> float:
        """The most that it weighs in one of them."""

    def column(self) -> Entries:
        """Return the chunks that hold it, ascending, and what it weighs in each."""

    def at(self, chunks: Ints) -> Floats:
        """Return what it weighs in some chunks, ascending."""


FEW = 64
"""Chunks beyond k that are looked up exactly: to leave out some of them takes longer."""


def contenders(words: Sequence[tuple[Word, float]], n_chunks: int, k: int) -> Ints | None:
    """Return the chunks that can be among the best ``k``, ascending, and some others.

    Args:
        words: each with its factor; no weight and no factor is negative.
        n_chunks: of the index.
        k: how many are wanted.

    Returns:
        None: that cannot be said with few entries.
    """
    ordered = sorted(words, key=lambda pair: pair[0].holding)
    most = [word.highest * factor for word, factor in ordered]
    # Of the words behind each: added up, not taken off, so that small sums are exact too.
    left = [*accumulate([0.0, *most[:0:-1]])][::-1]
    columns, n_read, read = list[Entries](), 0, 0.0
    for number, (word, factor) in enumerate(ordered):
        n_read += word.holding
        if n_read * DENSE_SHARE > n_chunks:
            return None
        rows, weights = word.column()
        columns.append(Entries(rows, weights if factor == 1 else weights * factor))
        read += most[number]
        is_last = number == len(ordered) - 1
        if not is_last and (n_read < k or read <= left[number]):
            continue
        chunks, sums = _summed(columns)
        if is_last or _least(sums, k) > left[number] * (1 + MARGIN):
            behind = zip(ordered[number + 1 :], left[number + 1 :], strict=True)
            return _reaching(chunks, sums, left[number], behind, k)
    return np.empty(0, np.int32)


def _least(sums: Floats, k: int) -> float:
    """Return what the k-th best sum is at least; 0 where there are fewer."""
    return kth_highest(sums, k).item() * (1 - MARGIN) if sums.size >= k else 0.0


def _reaching(
    chunks: Ints,
    sums: Floats,
    left: float,
    behind: Iterable[tuple[tuple[Word, float], float]],
    k: int,
) -> Ints:
    """Return the chunks whose sum can reach the k-th best when words are added to it.

    ``left`` is what all of them can add; ``behind`` are the words, each with what the words behind
    it can add.
    """
    words = iter(behind)
    while True:
        reach = sums * (1 + MARGIN) + left * (1 + MARGIN) >= _least(sums, k)
        chunks, sums = chunks[reach], sums[reach]
        following = next(words, None)
        if following is None or chunks.size <= FEW + k:
            return chunks
        (word, factor), left = following
        sums += word.at(chunks) * factor


def _summed(columns: Sequence[Entries]) -> tuple[Ints, Floats]:
    """Return the rows of some columns, ascending, and their rough sums."""
    if len(columns) == 1:
        return columns[0].rows, columns[0].numbers
    rows = np.concatenate([column.rows for column in columns])
    order = rows.argsort(kind="stable")  # runs that ascend are merged
    rows = rows[order]
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    weights = np.concatenate([column.numbers for column in columns])[order]
    return rows[starts], np.add.reduceat(weights, starts)
