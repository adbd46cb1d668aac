"""The longest columns of a sparse matrix as arrays over all rows: quick to add, to look up."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

DENSE_SHARE = 8
"""A column that holds more than one row in so many is kept as arrays over all rows ..."""

DENSE_BYTES = 1 << 28
"""... the longest ones, as far as all such arrays together take no more than this."""

ABSENT = -1
"""Place of a row that a column does not hold."""

SMALL, LARGE = 1e-30, 1e30
"""Values other than 0 whose sums float32 holds without a loss of digits lie between these."""

_BYTES_A_ROW = 8


def fit_float32(values: npt.NDArray[np.float64]) -> bool:
    """Return whether values that are not negative, and sums of them, can be kept as float32."""
    if not values.size or SMALL <= values.min() <= values.max() <= LARGE:
        return True
    above = values[values > 0]
    return not above.size or bool(above.min() >= SMALL and above.max() <= LARGE)


@dataclass(frozen=True)
class DenseColumns:
    """The longest columns; each is spread when it is first asked for.

    Attributes:
        data: value of each entry of the matrix, shape (entries,).
        indices: row of each entry, shape (entries,).
        indptr: first entry of each column, shape (columns + 1,).
        slots: place of each column in ``values`` and ``places``, -1 for the others; shape
            (columns,).
        values: rounded to float32, shape (slots, rows); 0 where a column has no entry.
        places: of the entry among those of its column, or :data:`ABSENT`; int32, shape (slots,
            rows).
    """

    data: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    slots: npt.NDArray[np.intp]
    values: npt.NDArray[np.float32]
    places: npt.NDArray[np.int32]
    misfits: set[int] = field(default_factory=set, repr=False)
    """Columns of those spread with a value that float32 cannot keep."""
    _spread: set[int] = field(default_factory=set, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(
        cls,
        data: npt.NDArray[np.float64],
        indices: npt.NDArray[np.int32],
        indptr: npt.NDArray[np.int64],
        n_rows: int,
    ) -> DenseColumns:
        """Choose the columns; memory is taken as they are spread."""
        sizes = np.diff(indptr)
        long = (sizes * DENSE_SHARE > n_rows).nonzero()[0]
        room = DENSE_BYTES // (_BYTES_A_ROW * max(1, n_rows))
        chosen = long[np.argsort(-sizes[long], kind="stable")[:room]]
        slots = np.full(sizes.size, -1, dtype=np.intp)
        slots[chosen] = np.arange(chosen.size)
        shape = chosen.size, n_rows
        empty = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.int32)
        return cls(data, indices, indptr, slots, *empty)

    def spread(self, column: int, slot: int) -> npt.NDArray[np.float32]:
        """Return the values of a column for all rows, shape (rows,); and have its places ready."""
        if slot not in self._spread:
            with self._lock:
                self._write(column, slot)
                self._spread.add(slot)
        values: npt.NDArray[np.float32] = self.values[slot]
        return values

    def _write(self, column: int, slot: int) -> None:
        if slot in self._spread:  # another thread was first, and may be reading
            return
        part = slice(int(self.indptr[column]), int(self.indptr[column + 1]))
        rows = self.indices[part]
        self.values[slot].fill(0)
        if not fit_float32(self.data[part]):
            self.misfits.add(column)
            return
        self.values[slot][rows] = self.data[part]
        self.places[slot].fill(ABSENT)
        self.places[slot][rows] = np.arange(rows.size, dtype=np.int32)
