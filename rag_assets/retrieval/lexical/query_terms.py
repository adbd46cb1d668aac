"""The columns that the tokens of several queries add, and the entries of these, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

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
    def of(cls, queries: Sequence[Sequence[str]], vocabulary: Mapping[str, int]) -> Terms:
        """Return the columns of the tokens of some queries; one that is repeated is as many terms.

        Tokens without a column are left out, and the places of the others stay as they are.
        """
        counts = np.fromiter(map(len, queries), dtype=np.intp, count=len(queries))
        firsts, total = counts.cumsum() - counts, int(counts.sum())
        found = map(vocabulary.get, chain.from_iterable(queries), repeat(-1))
        columns = np.fromiter(found, dtype=np.intp, count=total)
        own = np.repeat(np.arange(counts.size), counts)
        terms = cls(columns, own, np.arange(total) - np.repeat(firsts, counts))
        return terms if columns.min(initial=0) == 0 else terms.those((columns >= 0).nonzero()[0])

    def of_query(self, query: int) -> list[int]:
        """Return the columns of one query."""
        columns: list[int] = self.columns[self.queries == query].tolist()
        return columns

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
