"""The best rows of a sum of columns without the sum of all rows: exact, by upper bounds.

No row gets more from a column than the column's highest value. So columns are added by descending
highest value, and as soon as the highest values of all that are left, together, are less than what
the k-th best row has already, no row that only they hold can be among the best. Of the rows seen so
far only those stay that could still reach the k-th best, and what the columns left add to them is
looked up, column by column, with fewer rows each time. This is MaxScore (Turtle and Flood: Query
Evaluation: Strategies and Optimizations, 1995), a term at a time. In text the columns left are
those of frequent words, with most of the entries.

The sums of the rows that stay at last are formed again in the order of the query, so that they have
the bits of :func:`rag_assets.lexical.column_sums.column_sums`; until then bounds have a margin that
is wider than any rounding.

Tried, at 100,000 chunks: ``np.unique`` takes a hash table and several times as long as a sort with
a comparison; ``np.add.reduceat`` after a stable sort of the rows, twice as long as ``np.add.at``;
``np.flatnonzero`` of floats ten times as long as of a comparison; ``np.partition``, see
:func:`rag_assets.ordering.kth_highest`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from rag_assets.lexical.column_sums import column_sums
from rag_assets.ordering import Hits, Positions, best_above_zero, kth_highest

FEW_ENTRIES = 4096
"""With so few entries or rows all of them are added: the steps here take longer."""

ENOUGH = 8
"""With so many times the rows that are wanted no more of them are left out one by one."""

SHORT = 1024
"""A column with fewer entries is rather added than looked up."""

LOOK_UP = 16
"""A column with so many times the entries of the rows that are wanted is searched, not spread."""

SHARE = 8
"""With one entry in so many rows, sums are formed over all rows."""

TINY = float(np.nextafter(0.0, 1.0))
"""The least sum that is above 0."""

MARGIN = 1 - 1e-12
"""Sums of the same values in another order differ by less."""

DENSE_SHARE = 8
"""A column that holds one row in so many is also kept as an array over all rows ..."""

DENSE_BYTES = 1 << 28
"""... while all such arrays together take no more than this."""

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int32]
Places = npt.NDArray[np.intp]


@dataclass
class Column:
    """One column, and what is known of it.

    Attributes:
        rows: of its entries, ascending, int32, shape (entries,).
        values: float64, shape (entries,).
        highest: of the values.
        kth: k -> the k-th highest value, 0 where there are fewer.
        dense: its value for every row, where that is kept.
    """

    rows: Rows
    values: Floats
    highest: float
    kth: dict[int, float] = field(default_factory=dict)
    dense: Floats | None = None

    def kth_highest(self, k: int) -> float:
        """Return the k-th highest value, 0 where there are fewer."""
        found = self.kth.get(k)
        if found is None:
            found = self.kth[k] = kth_highest(self.values, k) if self.values.size >= k else 0.0
        return found


@dataclass(frozen=True)
class Columns:
    """A sparse matrix by columns whose values are not negative, and what is known of its columns.

    What was found out of a column is kept: threads that find it out at once find the same.

    Attributes:
        data: value of each entry, float64, shape (entries,).
        indices: row of each entry, ascending within a column, int32, shape (entries,).
        indptr: first entry of each column, at least one of each, int64, shape (columns + 1,).
        n_rows: number of rows.
    """

    data: Floats
    indices: Rows
    indptr: npt.NDArray[np.int64]
    n_rows: int
    _known: dict[int, Column] = field(default_factory=dict, repr=False)
    _dense: list[int] = field(default_factory=list, repr=False)
    _own: threading.local = field(default_factory=threading.local, repr=False)

    def best(self, columns: Sequence[int], ids_rank: Positions, k: int) -> Hits:
        """Return the ``k`` rows with the highest sum above 0 of some columns.

        Args:
            columns: numbers of the columns; one that is repeated is added as often.
            ids_rank: place of each row's id in byte order, shape (n_rows,).
            k: rows at most.

        Raises:
            UsageError: ``k`` is below 1.
        """
        if self.n_rows < FEW_ENTRIES or k < 1:
            return self._best_of_all(columns, ids_rank, k)
        known = [self._column(column) for column in columns]
        if sum(each.rows.size for each in known) < FEW_ENTRIES:
            return self._best_of_all(columns, ids_rank, k)
        times = Counter(columns)
        rows = self._may_be_best([(self._column(one), n) for one, n in times.items()], k)
        sums = np.zeros(rows.size)
        for each in known:  # in their order, like those of all rows
            sums += self._at(each, rows)
        best = np.lexsort((ids_rank[rows], sums))[::-1][:k]  # exact at the cut: few, and all tied
        return Hits(rows[best], sums[best])

    def _best_of_all(self, columns: Sequence[int], ids_rank: Positions, k: int) -> Hits:
        sums = column_sums(self.data, self.indices, self.indptr, columns, self.n_rows)
        return best_above_zero(sums, ids_rank, k)

    def _may_be_best(self, columns: list[tuple[Column, int]], k: int) -> Places:
        """Return ascending rows, among them the ``k`` best and all tied with the last of them."""
        columns.sort(key=lambda each: -each[0].highest * each[1])
        highs = [each.highest * n for each, n in columns]
        left = [*accumulate(reversed(highs), initial=0.0)][::-1]
        least = max(each.kth_highest(k) * n for each, n in columns)
        i = next((i for i, high in enumerate(left) if high < least * MARGIN), len(highs))
        while i < len(highs) and columns[i][0].rows.size < SHORT:
            i += 1
        rows, sums = self._added(columns[:i], least * MARGIN - left[i])
        while rows.size > k:
            reached = sums[sums >= least]
            if reached.size > k:
                least = kth_highest(reached, k)
            stay = sums >= least * MARGIN - left[i]
            rows = rows[stay]
            if rows.size <= ENOUGH * k or i == len(highs):
                break
            column, n = columns[i]
            sums = sums[stay] + n * self._at(column, rows)
            i += 1
        return rows

    def _added(self, columns: Sequence[tuple[Column, int]], least: float) -> tuple[Places, Floats]:
        """Return the rows, ascending, in which the sum of some columns is above 0 and ``least``."""
        # numpy would turn other integers into these, again at each use
        rows = np.concatenate([each.rows for each, _ in columns], dtype=np.intp)
        values: Floats = np.concatenate(
            [each.values if n == 1 else each.values * n for each, n in columns]
        )
        least = max(least, TINY)
        if rows.size * SHARE > self.n_rows:
            summed = np.bincount(rows, weights=values, minlength=self.n_rows)
            totals = summed.astype(np.float64, copy=False)
            reached = (totals >= least).nonzero()[0]
            return reached, totals[reached]
        sums = self._zeros()
        np.add.at(sums, rows, values)
        found = rows[sums.take(rows) >= least]
        found.sort()
        found = found[np.concatenate([found[1:] != found[:-1], [True]])] if found.size else found
        of_found = sums[found]
        sums[rows] = 0.0
        return found, of_found

    def _at(self, column: Column, rows: Places) -> Floats:
        """Return the values of a column for some rows; 0 where it has no entry."""
        if column.dense is not None:
            return column.dense.take(rows)
        if rows.size * LOOK_UP > column.rows.size:
            zeros, own = self._zeros(), column.rows.astype(np.intp)
            zeros[own] = column.values
            found: Floats = zeros.take(rows)
            zeros[own] = 0.0
            return found
        places = column.rows.searchsorted(rows.astype(np.int32))
        held = column.rows.take(places, mode="clip") == rows
        found = column.values.take(places, mode="clip") * held
        return found

    def _zeros(self) -> Floats:
        """Return an array of a zero for each row, which belongs to this thread and must stay so."""
        kept: Floats | None = getattr(self._own, "zeros", None)
        if kept is None:
            kept = self._own.zeros = np.zeros(self.n_rows)
        return kept

    def _column(self, number: int) -> Column:
        known = self._known.get(number)
        if known is not None:
            return known
        part = slice(int(self.indptr[number]), int(self.indptr[number + 1]))
        values = self.data[part]
        column = Column(self.indices[part], values, float(values.max()))
        room = 8 * self.n_rows * (len(self._dense) + 1) <= DENSE_BYTES
        if column.rows.size * DENSE_SHARE > self.n_rows and room:
            column.dense = np.zeros(self.n_rows)
            column.dense[column.rows] = values
            self._dense.append(number)
        self._known[number] = column
        return column
