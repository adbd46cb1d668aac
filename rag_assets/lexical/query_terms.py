"""The columns that several queries add, and the entries of these, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.intp]


def ranges(starts: Places, sizes: Places) -> Places:
    """Return the numbers from each of ``starts`` on, as many as ``sizes`` says, one after other."""
    numbers = np.repeat(starts - sizes.cumsum() + sizes, sizes)
    numbers += np.arange(numbers.size)
    return numbers


@dataclass(frozen=True)
class Terms:
    """Columns of queries, in their order.

    Attributes:
        columns: their numbers, shape (terms,).
        queries: the query of each, shape (terms,).
        places: of each in its query, shape (terms,).
    """

    columns: Places
    queries: Places
    places: Places

    @classmethod
    def of(cls, queries: Sequence[Sequence[int]]) -> Terms:
        """Return the columns of some queries; one that is repeated is as many terms."""
        counts = np.array([len(query) for query in queries], dtype=np.intp)
        total = int(counts.sum())
        columns = np.fromiter(chain.from_iterable(queries), dtype=np.intp, count=total)
        firsts = np.repeat(counts.cumsum() - counts, counts)
        return cls(columns, np.repeat(np.arange(counts.size), counts), np.arange(total) - firsts)

    def those(self, which: Places) -> Terms:
        """Return some of them."""
        return Terms(self.columns.take(which), self.queries.take(which), self.places.take(which))


@dataclass(frozen=True)
class Entries:
    """Entries of the columns of terms, term by term.

    Attributes:
        numbers: of each in the matrix, shape (entries,).
        sizes: how many each term has, shape (terms,).
    """

    numbers: Places
    sizes: Places

    @classmethod
    def of(cls, terms: Terms, indptr: npt.NDArray[np.int64]) -> Entries:
        """Return the entries of some terms; ``indptr`` is where those of each column begin."""
        starts = indptr.take(terms.columns)
        sizes = indptr.take(terms.columns + 1) - starts
        return cls(ranges(starts, sizes), sizes)

    def terms(self, which: Places) -> Places:
        """Return the term of some entries."""
        return self.sizes.cumsum().searchsorted(which, side="right")
