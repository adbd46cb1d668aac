"""A block of queries: their sums in float32, the rows that may be the best, and the exact sums.

The steps are those of :mod:`rag_assets.lexical.best_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.lexical.dense_columns import ABSENT, fit_float32
from rag_assets.lexical.query_terms import Entries, Terms
from rag_assets.lexical.sparse_columns import SparseColumns
from rag_assets.ordering import Positions

ROUNDING = 2.0**-24
"""Largest relative error of a value that is rounded to float32."""

TINY = float(np.finfo(np.float32).tiny)
"""Less than any sum above 0 of values that fit float32."""

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


class Candidates(NamedTuple):
    """Rows that may be among the best of a query, by query and then by the rank of the id.

    Attributes:
        queries: shape (candidates,).
        rows: shape (candidates,).
    """

    queries: Places
    rows: Positions


class QueryBlock:
    """Queries that are searched for at once."""

    def __init__(self, matrix: SparseColumns, queries: Sequence[Sequence[int]], grid: Grid) -> None:
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
        cells = first[:, None] + np.arange(depth) * groups
        cells = cells[self.sums.take(cells) >= least.take(queries)[:, None]]
        queries = cells // self.grid.cells
        n_rows = self.matrix.n_rows
        ranks = ids_rank.take(cells - queries * self.grid.cells) + queries * n_rows
        ranks.sort()
        queries = ranks // n_rows
        return Candidates(queries, by_rank.take(ranks - queries * n_rows))

    def scores(self, candidates: Candidates) -> npt.NDArray[np.float64]:
        """Return the sums of candidates in float64, added in the order of the query."""
        added = np.zeros((self.length, candidates.rows.size))
        flat = added.ravel()
        places, numbers = self._short_entries(candidates)
        flat[places] = self.matrix.data.take(numbers)
        places, numbers = self._long_entries(candidates)
        flat[places] = self.matrix.data.take(numbers)
        totals: npt.NDArray[np.float64] = added[0]
        for one in added[1:]:
            totals += one
        return totals

    def _short_entries(self, candidates: Candidates) -> tuple[Places, Places]:
        """Return places in (terms of a query, candidates), and the entries that are added there."""
        cells = candidates.queries * self.grid.cells + candidates.rows
        marks, numbers = self.space.marks, self.space.numbers
        marks[cells] = True
        which = marks.take(self.cells).nonzero()[0]
        marks[cells] = False
        numbers[cells] = np.arange(cells.size, dtype=np.int32)
        places = self.short.places.take(self.entries.terms(which)) * cells.size
        places += numbers.take(self.cells.take(which))
        return places, self.entries.numbers.take(which)

    def _long_entries(self, candidates: Candidates) -> tuple[Places, Places]:
        """Return the same of the columns that are kept as arrays over all rows."""
        dense = self.matrix.dense
        by_place = np.full((self.length, self.n), -1)
        by_place[self.long.places, self.long.queries] = np.arange(self.slots.size)
        terms = by_place.take(candidates.queries, axis=1).ravel()
        places = (terms >= 0).nonzero()[0]
        terms = terms.take(places)
        rows = candidates.rows.take(places % max(1, candidates.rows.size))
        of_column = dense.places.ravel().take(self.slots.take(terms) * self.matrix.n_rows + rows)
        held = (of_column != ABSENT).nonzero()[0]
        firsts = self.matrix.indptr.take(self.long.columns.take(terms.take(held)))
        return places.take(held), firsts + of_column.take(held)
