"""A word with what it weighs in each chunk of an index, in the form that is added quickest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.array_folder import Entries, Floats, Ints, Longs


@dataclass(frozen=True)
class Weigh:
    """A formula of what a word weighs in the chunks that hold it.

    Attributes:
        of_word: how many chunks hold a word -> the numbers that are the same in all of them.
        in_chunks: the chunks, how often each holds the word, and those numbers, of the word or of
            each entry -> what it weighs in each chunk.
    """

    of_word: Callable[[int], Sequence[float]]
    in_chunks: Callable[..., Floats]

    def one(self, entries: Entries, holding: int) -> Floats:
        """Return what a word weighs in some of the chunks that hold it."""
        return self.in_chunks(*_as_floats(entries), *self.of_word(holding))

    def each(self, entries: Entries, holding: Longs) -> Floats:
        """Return what words weigh whose entries stand one after the other."""
        of_words = np.array([self.of_word(number) for number in holding.tolist()])
        return self.in_chunks(*_as_floats(entries), *np.repeat(of_words.T, holding, axis=1))


def _as_floats(entries: Entries) -> tuple[Ints, Floats]:
    return entries.rows, entries.numbers.astype(np.float64)


SMALL = 1 << 12
"""Chunks of an index of which all entries are added at once: each call takes longer than adding."""

LONG_SHARE = 6
"""A word in more than one chunk of so many is kept as an array over all chunks: adding that takes
less time than adding its entries."""

COUNTED_FROM = 1 << 17, 1 << 13
"""Of an index of so many chunks, a word in so many is kept as its counts: in less than half of the
memory, and weighed again when it is read."""


@dataclass(frozen=True, eq=False)
class WeighedWord:
    """What a word weighs in the chunks of an index.

    Attributes:
        holding: how many chunks hold it.
        highest: the most that it weighs.
        least: the least.
        rows: the chunks that hold it, ascending; None: ``values`` are of all chunks.
        values: its weights, or its counts.
        weigh: what makes weights of counts; None: they are weights.
    """

    holding: int
    highest: float
    least: float
    rows: Ints | None
    values: npt.NDArray[Any]
    weigh: Weigh | None

    @classmethod
    def of(
        cls, entries: Entries, weights: Floats, bounds: Sequence[float], weigh: Weigh, n_chunks: int
    ) -> WeighedWord:
        """Return a word by its counts and weights, of which none is outside of ``bounds``."""
        (rows, counts), holding, (least, highest) = entries, entries.rows.size, bounds
        is_counted = n_chunks >= COUNTED_FROM[0] and holding >= COUNTED_FROM[1]
        values, how = (counts, weigh) if is_counted else (weights, None)
        if holding * LONG_SHARE <= n_chunks or n_chunks < SMALL:
            return cls(holding, highest, least, rows, values, how)
        everywhere = np.zeros(n_chunks, values.dtype)
        everywhere[rows] = values
        return cls(holding, highest, least, None, everywhere, how)

    @property
    def n_bytes(self) -> int:
        """About how much memory it takes."""
        return 1_000 + self.values.nbytes + (0 if self.rows is None else self.rows.nbytes)

    def column(self) -> Entries:
        """Return the chunks that hold it, ascending, and what it weighs in each of them."""
        rows, values = self.rows, self.values
        if rows is None:
            rows = values.nonzero()[0].astype(np.int32)
            values = values[rows]
        return Entries(rows, self._weights(rows, values))

    def add_to(self, totals: Floats, factor: float) -> None:
        """Add what it weighs, times a factor, to the sums of all chunks."""
        rows, weights = (self.rows, self.values) if self.weigh is None else self.column()
        if factor != 1:
            weights = weights * factor
        if rows is None:
            totals += weights
        else:
            np.add.at(totals, rows, weights)

    def at(self, chunks: Ints) -> Floats:
        """Return what it weighs in some chunks, ascending; 0 where it does not stand."""
        weights = np.zeros(chunks.size)
        if self.rows is None:
            values = self.values[chunks]
            if self.weigh is None:
                return values
            held = values.nonzero()[0]
            values = values[held]
        elif self.holding:
            places = self.rows.searchsorted(chunks)
            places[places == self.holding] = 0
            held = (self.rows[places] == chunks).nonzero()[0]
            values = self.values[places[held]]
        else:
            return weights
        weights[held] = self._weights(chunks[held], values)
        return weights

    def _weights(self, chunks: Ints, values: npt.NDArray[Any]) -> Floats:
        if self.weigh is None:
            return values
        return self.weigh.one(Entries(chunks, values), self.holding)
