"""The best rows of sums of columns, for many queries at once: exact, by sums in float32.

Sums in float64 of all rows, and a sort of them, are most of the work of a search. Here

1. the columns of each query are added in float32, the long ones as arrays over all rows, the others
   entry by entry;
2. the k-th highest of the maxima of disjoint groups of rows is at most the k-th highest sum; only
   rows that reach it, less a margin wider than any rounding, can be among the best: a little more
   than k of them, and only in the groups whose maximum reaches it;
3. for these the sums are formed again, in float64 and in the order of the query, so that they have
   the bits of :func:`.sparse_columns.column_sums`; and they are sorted.

Each step is done for a block of queries at once, since a call of numpy takes as long as adding a
thousand numbers, and a small corpus has not many more.

A sum of n values, each rounded to float32, is off by less than a share of (n + 1) / 2**24 (Higham:
Accuracy and Stability of Numerical Algorithms, 2002, section 4.2; no value is negative).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.errors import UsageError
from rag_assets.ordering import Hits, Positions, best_above_zero
from rag_assets.retrieval.lexical.sparse_columns import (
    Floats,
    Places,
    SparseColumns,
    column_sums,
    fit_float32,
)

AT_ONCE = 512
"""Queries in a block at most: the sums of more, of a thousand rows, leave a core's own cache."""

CELLS = 1 << 20
"""Sums that are formed at once, or those of one query; half or twice as many take no less time."""

ROOM = 160
"""Cells for which a row counts that is returned: what is added again is to stay in that cache."""

ADDED = 1 << 22
"""Values that are added again at most; of more, as where most rows are tied, all are added."""

ROUNDING = 2.0**-24
"""Largest relative error of a value that is rounded to float32."""

TINY = float(np.finfo(np.float32).tiny)
"""Less than any sum above 0 of values that fit float32."""

Singles = npt.NDArray[np.float32]


def best_rows(
    matrix: SparseColumns,
    vocabulary: Mapping[str, int],
    queries: Iterable[Sequence[str]],
    ids_rank: Positions,
    k: int,
) -> Iterator[Hits]:
    """Yield for each query the ``k`` rows with the highest sum above 0 of its columns.

    Args:
        matrix: the columns.
        vocabulary: token -> number of its column.
        queries: tokens each; one that is repeated is added as often, an unknown one adds nothing.
        ids_rank: place of each row's id in byte order, shape (n_rows,).
        k: rows at most.

    Raises:
        UsageError: ``k`` is below 1.
    """
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")
    at_once = min(AT_ONCE, max(1, CELLS // max(matrix.n_rows, ROOM * k)))
    # more groups take longer to compare, fewer have more rows to look at
    n_slabs = max(1, matrix.n_rows // max(4 * k, isqrt(k * matrix.n_rows)))
    waiting = iter(queries)
    while tokens := [*islice(waiting, at_once)]:
        block = _Block(matrix, _Terms.of(tokens, vocabulary), len(tokens), n_slabs)
        sums = block.rough_sums()
        candidates = None if sums is None else _reaching(sums, k, block.length)
        if candidates is not None and candidates.size * block.length <= ADDED:
            yield from block.ranked(candidates, ids_rank, k)
        else:
            yield from block.of_all_rows(ids_rank, k)


class _Terms(NamedTuple):
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
    def of(cls, queries: Sequence[Sequence[str]], vocabulary: Mapping[str, int]) -> _Terms:
        """Return the columns of the tokens of some queries; one that is repeated is as many terms.

        Tokens without a column are left out, and the places of the others stay as they are.
        """
        counts = np.fromiter(map(len, queries), dtype=np.intp, count=len(queries))
        total = int(counts.sum())
        numbers = map(vocabulary.get, chain.from_iterable(queries), repeat(-1))
        columns = np.fromiter(numbers, dtype=np.intp, count=total)
        places = _ranges(np.zeros_like(counts), counts)
        return cls(columns, np.repeat(np.arange(counts.size), counts), places).where(columns >= 0)

    def where(self, chosen: npt.NDArray[np.bool_]) -> _Terms:
        """Return some of the terms."""
        if chosen.all():
            return self
        numbers = chosen.nonzero()[0]
        return _Terms(*(values.take(numbers) for values in self))


class _Block:
    """Queries that are searched for at once; a cell is a query and a row.

    The rows are as many as fill ``n_slabs`` of one size: the last ones may hold nothing.
    """

    def __init__(self, matrix: SparseColumns, terms: _Terms, n_queries: int, n_slabs: int) -> None:
        self.matrix, self.terms = matrix, terms
        self.n_queries, self.n_slabs = n_queries, n_slabs
        self.width = max(1, -(-matrix.n_rows // n_slabs)) * n_slabs
        self.length = int(terms.places.max(initial=0)) + 1
        slots = matrix.long.slots.take(terms.columns)
        self.long, self.short = terms.where(slots >= 0), terms.where(slots < 0)
        self.slots = matrix.long.slots.take(self.long.columns)
        firsts = matrix.indptr.take(self.short.columns)
        self.sizes = matrix.indptr.take(self.short.columns + 1) - firsts
        self.entries = _ranges(firsts, self.sizes)

    def rough_sums(self) -> Singles | None:
        """Return the sums in float32; None where it cannot hold them.

        Shape (queries, slabs, groups): row r is at slab r // groups of group r % groups.
        """
        values, long = self.matrix.data.take(self.entries), self.matrix.long
        if not (fit_float32(values) and long.fit(self.slots)):
            return None
        sums = np.empty((self.n_queries, self.width), dtype=np.float32)
        sums[:, self.matrix.n_rows :] = 0
        slots = self.slots.tolist()
        ends = np.bincount(self.long.queries, minlength=self.n_queries).cumsum().tolist()
        start = 0
        for total, end in zip(sums[:, : self.matrix.n_rows], ends, strict=True):
            if end - start > 1:
                np.add(long.rounded[slots[start]], long.rounded[slots[start + 1]], total)
                for slot in slots[start + 2 : end]:
                    total += long.rounded[slot]
            else:
                total[:] = long.rounded[slots[start]] if end > start else 0
            start = end
        self.cells = np.repeat(self.short.queries * self.width, self.sizes)
        self.cells += self.matrix.indices.take(self.entries)
        np.add.at(sums.ravel(), self.cells, values.astype(np.float32))
        return sums.reshape(self.n_queries, self.n_slabs, -1)

    def ranked(self, cells: Places, ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield the best of each query among these cells, which ascend."""
        queries, rows = np.divmod(cells, self.width)
        scores = self._exact_sums(cells, queries, rows)
        order = np.lexsort((-ids_rank.take(rows), -scores, queries))
        order = order[scores.take(order) > 0]
        rows, scores = rows.take(order), scores.take(order)
        start = 0
        for end in np.bincount(queries.take(order), minlength=self.n_queries).cumsum().tolist():
            last = min(end, start + k)
            yield Hits(rows[start:last], scores[start:last])
            start = end

    def of_all_rows(self, ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield the best of each query by the sums of all rows in float64."""
        matrix = self.matrix
        for query in range(self.n_queries):
            columns = self.terms.columns[self.terms.queries == query].tolist()
            sums = column_sums(matrix.data, matrix.indices, matrix.indptr, columns, matrix.n_rows)
            yield best_above_zero(sums, ids_rank, k)

    def _exact_sums(self, cells: Places, queries: Places, rows: Places) -> Floats:
        """Return the sums of some cells in float64, added in the order of the query."""
        added = np.zeros((self.length, cells.size))
        is_candidate = np.zeros(self.n_queries * self.width, dtype=np.bool_)
        is_candidate[cells] = True
        entries = is_candidate.take(self.cells).nonzero()[0]
        terms = self.sizes.cumsum().searchsorted(entries, side="right")
        candidates = cells.searchsorted(self.cells.take(entries))
        values = self.matrix.data.take(self.entries.take(entries))
        added[self.short.places.take(terms), candidates] = values
        counts = np.bincount(queries, minlength=self.n_queries)
        sizes = counts.take(self.long.queries)
        candidates = _ranges((counts.cumsum() - counts).take(self.long.queries), sizes)
        long = np.repeat(self.slots * self.matrix.n_rows, sizes) + rows.take(candidates)
        values = self.matrix.long.exact.ravel().take(long)
        added[np.repeat(self.long.places, sizes), candidates] = values
        totals: Floats = added[0]
        for values in added[1:]:
            totals += values
        return totals


def _reaching(sums: Singles, k: int, length: int) -> Places:
    """Return the cells whose sum reaches the k-th highest maximum of groups of rows, ascending."""
    n_queries, n_slabs, groups = sums.shape
    maxima: Singles = sums.max(axis=1)
    least = np.full(n_queries, TINY, dtype=np.float32)
    if k <= groups:
        highest = np.partition(maxima, groups - k, axis=1)[:, groups - k]
        least = np.maximum(highest * (1 - 4 * (length + 2) * ROUNDING), least)
    queries, first_rows = np.divmod((maxima >= least[:, None]).ravel().nonzero()[0], groups)
    reach = sums[queries, :, first_rows] >= least[queries, None]
    chosen, slabs = np.divmod(reach.ravel().nonzero()[0], n_slabs)
    cells: Places = (queries.take(chosen) * n_slabs + slabs) * groups + first_rows.take(chosen)
    cells.sort()
    return cells


def _ranges(starts: Places, sizes: Places) -> Places:
    """Return the numbers from each of ``starts`` on, as many as ``sizes`` says, one after other."""
    numbers = np.repeat(starts - sizes.cumsum() + sizes, sizes)
    numbers += np.arange(numbers.size)
    return numbers
