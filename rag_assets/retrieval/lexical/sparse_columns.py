"""A sparse matrix by columns, such as the weights of words in chunks, and sums of its columns.

The longest columns are also kept as arrays over all rows: quick to add, quick to look up.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

LONG_SHARE = 32
"""A column that holds more than one row in so many is kept as arrays over all rows ..."""

LONG_BYTES = 1 << 28
"""... the longest ones, as far as all such arrays together take no more than this."""

SMALL, LARGE = 1e-30, 1e30
"""Values other than 0 whose sums float32 holds without a loss of digits lie between these."""

_BYTES_A_ROW = 12

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


def column_sums(
    data: Floats,
    indices: npt.NDArray[np.int32],
    indptr: npt.NDArray[np.int64],
    columns: Sequence[int],
    n_rows: int,
    factors: Sequence[float] | None = None,
) -> Floats:
    """Return the sum of some columns, each times its factor, added in the order of ``columns``.

    Args:
        data: value of each entry; those of column t lie at ``indptr[t]`` to ``indptr[t + 1]``.
        indices: row of each entry, shape (entries,).
        indptr: first entry of each column, int64, shape (columns + 1,).
        columns: numbers of the columns; one that is repeated is added as often.
        n_rows: number of rows.
        factors: one for each of ``columns``; None is 1.

    Returns:
        float64, shape (n_rows,); 0 where no column has an entry.
    """
    if not columns:
        return np.zeros(n_rows)
    entries = [slice(indptr[column], indptr[column + 1]) for column in columns]
    rows = np.concatenate([indices[part] for part in entries])
    parts = [data[part] for part in entries]
    if factors is not None:
        parts = [part * factor for part, factor in zip(parts, factors, strict=True)]
    # adds in the order of the entries, so in the order of the columns, in one compiled loop
    summed = np.bincount(rows, weights=np.concatenate(parts), minlength=n_rows)
    return summed.astype(np.float64, copy=False)


@dataclass(frozen=True)
class SparseColumns:
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

    @cached_property
    def long(self) -> LongColumns:
        """The longest columns."""
        sizes = np.diff(self.indptr)
        columns = (sizes * LONG_SHARE > self.n_rows).nonzero()[0]
        room = LONG_BYTES // (_BYTES_A_ROW * max(1, self.n_rows))
        return LongColumns(self, columns[np.argsort(-sizes[columns], kind="stable")[:room]])


class LongColumns:
    """Columns as arrays over all rows; each is written when it is first added.

    Attributes:
        slots: place of each column of the matrix in the arrays, -1 for the others.
        exact: float64, shape (slots, rows).
        rounded: to float32, an array of shape (rows,) for each slot.
    """

    def __init__(self, matrix: SparseColumns, columns: Places) -> None:
        """Choose the columns; memory is taken as they are written."""
        self.slots = np.full(matrix.indptr.size - 1, -1, dtype=np.intp)
        self.slots[columns] = np.arange(columns.size)
        self.exact = np.empty((columns.size, matrix.n_rows))
        self.rounded = list(np.empty((columns.size, matrix.n_rows), dtype=np.float32))
        self._matrix, self._columns = matrix, columns
        self._written = np.zeros(columns.size, dtype=np.bool_)
        self._fitting = np.zeros(columns.size, dtype=np.bool_)
        self._lock = threading.Lock()

    def fit(self, slots: Places) -> bool:
        """Have the columns in these slots written, and return whether float32 can keep them."""
        if not self._written.take(slots).all():
            with self._lock:
                for slot in set(slots.tolist()):
                    self._write(slot)
        return bool(self._fitting.take(slots).all())

    def _write(self, slot: int) -> None:
        if self._written[slot]:  # maybe by another thread, and others may be reading
            return
        part = slice(*self._matrix.indptr[self._columns[slot] :][:2].tolist())
        self.exact[slot] = 0
        self.exact[slot][self._matrix.indices[part]] = self._matrix.data[part]
        if fit_float32(self._matrix.data[part]):
            self.rounded[slot][:] = self.exact[slot]
            self._fitting[slot] = True
        self._written[slot] = True


def fit_float32(values: Floats) -> bool:
    """Return whether values that are not negative, and sums of them, can be kept as float32."""
    if not values.size or SMALL <= values.min() <= values.max() <= LARGE:
        return True
    above = values[values > 0]
    return not above.size or bool(above.min() >= SMALL and above.max() <= LARGE)
