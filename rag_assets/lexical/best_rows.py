"""The best rows of sums of columns, for many queries at once: exact, by sums in float32.

Sums in float64 of all rows, and a sort of them, are most of the work of a search. Here

1. the columns of each query are added in float32, the long ones as arrays over all rows
   (:mod:`rag_assets.lexical.dense_columns`), the others entry by entry;
2. rows are put in groups, n // groups rows each. The k-th highest of the groups' maxima is at most
   the k-th highest sum, as k groups have a row that reaches it; only rows that reach it, less a
   margin wider than any rounding, can be among the best: a little more than k of them;
3. for these the sums are formed again, in float64 and in the order of the query, so that they have
   the bits of :func:`rag_assets.lexical.column_sums.column_sums`; and they are sorted.

Each step is done for a block of queries at once, since a call of numpy takes as long as adding a
thousand numbers, and a small corpus has not many more.

A sum of n values, each rounded to float32, is off by less than a share of (n + 1) / 2**24 (Higham:
Accuracy and Stability of Numerical Algorithms, 2002, section 4.2; no value is negative).

Tried, at 1,000 to 1,000,000 chunks: MaxScore (Turtle and Flood, 1995), which leaves out the columns
of frequent words, takes some 60 calls of numpy a query, and 1.3 to 4 times as long; sums of a block
by ``np.bincount`` in float64, with no third step, twice as long from 10,000 chunks on; slices of
the columns, concatenated, instead of the numbers of their entries: a sixth less at 1,000,000
chunks, a quarter more at 1,000.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.errors import UsageError
from rag_assets.lexical.column_sums import column_sums
from rag_assets.lexical.dense_columns import ABSENT, DenseColumns, fit_float32
from rag_assets.lexical.query_terms import Entries, Terms
from rag_assets.ordering import Hits, Positions, best_above_zero

CELLS = 1 << 18
"""Sums that are formed at once: as many as fit near the processor, or those of one query."""

ADDED = 1 << 22
"""Values that are added again at most; of more, as where most rows are tied, all are added."""

ROUNDING = 2.0**-24
"""Largest relative error of a value that is rounded to float32."""

TINY = float(np.finfo(np.float32).tiny)
"""Less than any sum above 0 of values that fit float32."""

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]


class Grid(NamedTuple):
    """How the rows are put in groups: row r is in group r % groups.

    Attributes:
        groups: number of groups.
        depth: rows in each; there may be more cells than rows, which have the sum 0.
    """

    groups: int
    depth: int

    @classmethod
    def of(cls, n_rows: int, k: int) -> Grid:
        """Return few groups, for few maxima, but enough for few rows in those of the best."""
        wanted = max(3 * k, isqrt(k * n_rows // 2))
        depth = max(1, n_rows // max(1, wanted))
        return cls(-(-n_rows // depth), depth)

    @property
    def cells(self) -> int:
        """Number of cells of a query."""
        return self.groups * self.depth


@dataclass(frozen=True)
class Columns:
    """A sparse matrix by columns whose values are not negative.

    Attributes:
        data: value of each entry, float64, shape (entries,).
        indices: row of each entry, ascending within a column, int32, shape (entries,).
        indptr: first entry of each column, int64, shape (columns + 1,).
        n_rows: number of rows.
    """

    data: Floats
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    n_rows: int
    _own: threading.local = field(default_factory=threading.local, repr=False)

    def best(
        self, queries: Iterable[Sequence[int]], ids_rank: Positions, k: int
    ) -> Iterator[Hits]:
        """Yield for each query the ``k`` rows with the highest sum above 0 of its columns.

        Args:
            queries: numbers of columns each; one that is repeated is added as often.
            ids_rank: place of each row's id in byte order, shape (n_rows,).
            k: rows at most.

        Raises:
            UsageError: ``k`` is below 1.
        """
        if k < 1:
            raise UsageError(f"k is {k}; at least 1 item must be asked for")
        grid = Grid.of(self.n_rows, k)
        by_rank = np.empty(self.n_rows, dtype=np.int64)
        by_rank[ids_rank] = np.arange(self.n_rows)
        waiting, at_once = iter(queries), max(1, CELLS // max(1, grid.cells))
        while wanted := [*islice(waiting, at_once)]:
            block = _Block(self, wanted, grid)
            few = block.candidates(k, ids_rank, by_rank) if block.add() else None
            if few is not None and few.rows.size * block.length <= ADDED:
                yield from _ranked(few, block.scores(few), len(wanted), k)
            else:
                yield from (self._best_of_all(query, ids_rank, k) for query in wanted)

    def _best_of_all(self, columns: Sequence[int], ids_rank: Positions, k: int) -> Hits:
        sums = column_sums(self.data, self.indices, self.indptr, columns, self.n_rows)
        return best_above_zero(sums, ids_rank, k)

    @cached_property
    def dense(self) -> DenseColumns:
        """The longest columns."""
        return DenseColumns.of(self.data, self.indices, self.indptr, self.n_rows)

    def space(self, n_cells: int) -> Space:
        """Return arrays of this thread for so many cells."""
        kept: Space | None = getattr(self._own, "space", None)
        if kept is None or kept.sums.size < n_cells:
            kept = self._own.space = Space.of(n_cells)
        return kept


class Space(NamedTuple):
    """Arrays of a value for each cell, used again for each block.

    Attributes:
        sums: anything.
        marks: all False, except while they are used.
        numbers: anything.
    """

    sums: Singles
    marks: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.int32]

    @classmethod
    def of(cls, n_cells: int) -> Space:
        """Make them."""
        empty = np.empty(n_cells, dtype=np.float32), np.zeros(n_cells, dtype=np.bool_)
        return cls(*empty, np.empty(n_cells, dtype=np.int32))


class Candidates(NamedTuple):
    """Rows that may be among the best of a query, by query and then by the rank of the id.

    Attributes:
        queries: shape (candidates,).
        rows: shape (candidates,).
    """

    queries: Places
    rows: Positions


class _Block:
    """Queries that are searched for at once."""

    def __init__(self, matrix: Columns, queries: Sequence[Sequence[int]], grid: Grid) -> None:
        self.matrix, self.grid, self.n = matrix, grid, len(queries)
        terms = Terms.of(queries)
        self.length = int(terms.places.max(initial=0)) + 1
        slots = matrix.dense.slots.take(terms.columns)
        self.long = terms.those((slots >= 0).nonzero()[0])
        self.slots = matrix.dense.slots.take(self.long.columns)
        self.short = terms.those((slots < 0).nonzero()[0])
        self.entries = Entries.of(self.short, matrix.indptr)
        self.space = matrix.space(self.n * grid.cells)
        self.sums = self.space.sums[: self.n * grid.cells]

    def add(self) -> bool:
        """Form the sums, and return whether float32 can hold them."""
        matrix, entries = self.matrix, self.entries
        values = matrix.data.take(entries.numbers)
        if not fit_float32(values):
            return False
        self.sums.fill(0)
        by_query = self.sums.reshape(self.n, self.grid.cells)[:, : matrix.n_rows]
        long = self.long.queries, self.long.columns, self.slots
        for query, column, slot in zip(*(each.tolist() for each in long), strict=True):
            by_query[query] += matrix.dense.spread(column, slot)
        before = np.repeat(self.short.queries * self.grid.cells, entries.sizes)
        self.cells = before + matrix.indices.take(entries.numbers)
        np.add.at(self.sums, self.cells, values.astype(np.float32))
        return not matrix.dense.misfits

    def candidates(self, k: int, ids_rank: Positions, by_rank: Positions) -> Candidates:
        """Return the rows whose sum reaches the k-th highest of the groups' maxima."""
        groups, depth = self.grid
        maxima = self.sums.reshape(self.n, depth, groups).max(axis=1)
        least = np.full(self.n, TINY, dtype=np.float32)
        if k <= groups:
            highest = -np.partition(-maxima, k - 1, axis=1)[:, k - 1]
            least = np.maximum(highest * (1 - 4 * (self.length + 2) * ROUNDING), least)
        found = (maxima >= least[:, None]).ravel().nonzero()[0]
        queries = found // groups
        first = found + queries * (self.grid.cells - groups)
        cells = (first[:, None] + np.arange(depth) * groups).ravel()
        cells = cells[self.sums.take(cells) >= np.repeat(least.take(queries), depth)]
        queries = cells // self.grid.cells
        n_rows = self.matrix.n_rows
        ranks = ids_rank.take(cells - queries * self.grid.cells) + queries * n_rows
        ranks.sort()
        queries = ranks // n_rows
        return Candidates(queries, by_rank.take(ranks - queries * n_rows))

    def scores(self, candidates: Candidates) -> Floats:
        """Return the sums of candidates in float64, added in the order of the query."""
        added = np.zeros((candidates.rows.size, self.length))
        flat = added.ravel()
        places, numbers = self._short_entries(candidates)
        flat[places] = self.matrix.data.take(numbers)
        places, numbers = self._long_entries(candidates)
        flat[places] = self.matrix.data.take(numbers)
        totals = added[:, 0].copy()
        for place in range(1, self.length):
            totals += added[:, place]
        return totals

    def _short_entries(self, candidates: Candidates) -> tuple[Places, Places]:
        """Return places in (candidates, terms of a query), and the entries that are added there."""
        cells = candidates.queries * self.grid.cells + candidates.rows
        marks, numbers = self.space.marks, self.space.numbers
        marks[cells] = True
        which = marks.take(self.cells).nonzero()[0]
        marks[cells] = False
        numbers[cells] = np.arange(cells.size, dtype=np.int32)
        of = numbers.take(self.cells.take(which)).astype(np.intp)
        places = self.short.places.take(self.entries.terms(which))
        return of * self.length + places, self.entries.numbers.take(which)

    def _long_entries(self, candidates: Candidates) -> tuple[Places, Places]:
        """Return the same of the columns that are kept as arrays over all rows."""
        dense = self.matrix.dense
        by_place = np.full((self.n, self.length), -1)
        by_place[self.long.queries, self.long.places] = np.arange(self.slots.size)
        terms = by_place.take(candidates.queries, axis=0).ravel()
        places = (terms >= 0).nonzero()[0]
        terms = terms.take(places)
        rows = candidates.rows.take(places // self.length)
        of_column = dense.places.ravel().take(self.slots.take(terms) * self.matrix.n_rows + rows)
        held = (of_column != ABSENT).nonzero()[0]
        firsts = self.matrix.indptr.take(self.long.columns.take(terms.take(held)))
        return places.take(held), firsts + of_column.take(held)


def _ranked(candidates: Candidates, scores: Floats, n_queries: int, k: int) -> Iterator[Hits]:
    """Yield the best of each query: candidates come by rank of the id, a stable sort keeps it."""
    counts = np.bincount(candidates.queries, minlength=n_queries)
    most = int(counts.max())
    firsts = np.arange(n_queries) * most
    places = np.arange(scores.size) + (firsts - counts.cumsum() + counts).take(candidates.queries)
    totals = np.zeros(n_queries * most)
    totals[places] = scores
    rows = np.zeros(n_queries * most, dtype=np.int64)
    rows[places] = candidates.rows
    ascending = totals.reshape(n_queries, most).argsort(axis=1, kind="stable")
    best = ascending[:, : -k - 1 : -1] + firsts[:, None]
    totals, rows = totals.take(best), rows.take(best)
    for n, own, of in zip((totals > 0).sum(axis=1).tolist(), rows, totals, strict=True):
        yield Hits(own[:n], of[:n])
