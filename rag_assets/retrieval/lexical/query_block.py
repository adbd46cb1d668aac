"""A block of queries: their sums in float32, the rows that may be the best, and the exact sums.

The steps are those of :mod:`rag_assets.retrieval.lexical.best_rows`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.ordering import Positions
from rag_assets.retrieval.lexical.dense_columns import ABSENT, fit_float32
from rag_assets.retrieval.lexical.query_terms import Entries, Terms, ranges
from rag_assets.retrieval.lexical.row_grid import Grid
from rag_assets.retrieval.lexical.row_order import RowOrder
from rag_assets.retrieval.lexical.sparse_columns import SparseColumns

ROUNDING = 2.0**-24
"""Largest relative error of a value that is rounded to float32."""

TINY = float(np.finfo(np.float32).tiny)
"""Less than any sum above 0 of values that fit float32."""

Places = npt.NDArray[np.intp]


class Candidates(NamedTuple):
    """Rows that may be among the best of a query, by query and then by the rank of the id.

    Attributes:
        queries: shape (candidates,).
        rows: shape (candidates,).
        counts: of each query, shape (queries,).
    """

    queries: Places
    rows: Positions
    counts: Places


class QueryBlock:
    """Queries that are searched for at once."""

    def __init__(self, matrix: SparseColumns, terms: Terms, n_queries: int, grid: Grid) -> None:
        self.matrix, self.grid, self.n = matrix, grid, n_queries
        self.length = int(terms.places.max(initial=0)) + 1
        slots = matrix.dense.slots.take(terms.columns)
        is_long = slots >= 0
        self.long = terms.those(is_long.nonzero()[0])
        self.slots = matrix.dense.slots.take(self.long.columns)
        self.short = terms.those((~is_long).nonzero()[0])
        self.entries = Entries.of(self.short, matrix.indptr)
        self.space = matrix.space(self.n * grid.cells)
        self.sums = self.space.sums[: self.n * grid.cells]

    def add(self) -> bool:
        """Form the sums, and return whether float32 can hold them."""
        matrix, entries = self.matrix, self.entries
        values = matrix.data.take(entries.numbers)
        if not (fit_float32(values) and matrix.dense.spread(self.slots)):
            return False
        self._add_long()
        self.cells = np.repeat(self.short.queries * self.grid.cells, entries.sizes)
        self.cells += matrix.indices.take(entries.numbers)
        np.add.at(self.sums, self.cells, values.astype(np.float32))
        return True

    def _add_long(self) -> None:
        """Write the sums of the columns that are kept as arrays over all rows."""
        by_query = self.sums.reshape(self.n, self.grid.cells)
        by_query[:, self.matrix.n_rows :] = 0
        values, slots = self.matrix.dense.values, self.slots.tolist()
        ends = np.bincount(self.long.queries, minlength=self.n).cumsum().tolist()
        start = 0
        for row, end in zip(by_query[:, : self.matrix.n_rows], ends, strict=True):
            total = row
            if end - start > 1:
                np.add(values[slots[start]], values[slots[start + 1]], total)
                for slot in slots[start + 2 : end]:
                    total += values[slot]  # takes two thirds of the time of `np.add`
            elif end > start:
                total[:] = values[slots[start]]
            else:
                total.fill(0)
            start = end

    def candidates(self, k: int, order: RowOrder) -> Candidates:
        """Return the rows whose sum reaches the k-th highest of the parts' maxima."""
        parts, width, depth = self.grid
        groups = self.grid.groups
        maxima = self.sums.reshape(self.n, depth, groups)
        maxima = maxima.max(axis=1) if depth > 1 else maxima[:, 0]
        least = np.full(self.n, TINY, dtype=np.float32)
        if k <= parts:
            of_parts = maxima.reshape(self.n, width, parts).max(axis=1)
            highest = -np.partition(-of_parts, k - 1, axis=1)[:, k - 1]
            least = np.maximum(highest * (1 - 4 * (self.length + 2) * ROUNDING), least)
        cells = (maxima >= least[:, None]).ravel().nonzero()[0]
        if depth > 1:
            queries = cells // groups
            cells += queries * (self.grid.cells - groups)
            cells = cells[:, None] + np.arange(depth) * groups
            cells = cells[self.sums.take(cells) >= least.take(queries)[:, None]]
            cells.sort()
        queries = cells // self.grid.cells
        rows = order.sort(queries, cells - queries * self.grid.cells)
        return Candidates(queries, rows, np.bincount(queries, minlength=self.n))

    def scores(self, candidates: Candidates) -> npt.NDArray[np.float64]:
        """Return the sums of candidates in float64, added in the order of the query."""
        added = np.zeros((self.length, candidates.rows.size))
        flat = added.ravel()
        for places, values in (self._of_short(candidates), self._of_long(candidates)):
            flat[places] = values
        totals: npt.NDArray[np.float64] = added[0]
        for one in added[1:]:
            totals += one
        return totals

    def _of_short(self, candidates: Candidates) -> tuple[Places, npt.NDArray[np.float64]]:
        """Return places in (terms of a query, candidates), and the values that are added there."""
        cells = candidates.queries * self.grid.cells + candidates.rows
        marks, numbers = self.space.marks, self.space.numbers
        marks[cells] = True
        which = marks.take(self.cells).nonzero()[0]
        marks[cells] = False
        numbers[cells] = np.arange(cells.size, dtype=np.int32)
        places = self.short.places.take(self.entries.terms(which)) * cells.size
        places += numbers.take(self.cells.take(which))
        return places, self.matrix.data.take(self.entries.numbers.take(which))

    def _of_long(self, candidates: Candidates) -> tuple[Places, npt.NDArray[np.float64]]:
        """Return the same of the columns that are kept as arrays over all rows."""
        long, dense = self.long, self.matrix.dense
        sizes = candidates.counts.take(long.queries)
        firsts = candidates.counts.cumsum() - candidates.counts
        which = ranges(firsts.take(long.queries), sizes)
        cells = np.repeat(self.slots * self.matrix.n_rows, sizes) + candidates.rows.take(which)
        of_column = dense.places.ravel().take(cells)
        places = np.repeat(long.places * candidates.rows.size, sizes) + which
        numbers = np.repeat(self.matrix.indptr.take(long.columns), sizes) + of_column
        values = self.matrix.data.take(numbers)
        values[of_column == ABSENT] = 0
        return places, values
