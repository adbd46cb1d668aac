"""The longest columns of a sparse matrix as arrays over all rows: quick to add, to look up."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

DENSE_SHARE = 16
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
        columns: number of the column of each place, shape (slots,).
        values: rounded to float32, an array of shape (rows,) for each slot; 0 where a column has no
            entry.
        places: of the entry among those of its column, or :data:`ABSENT`; int32, shape (slots,
            rows).
    """

    data: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    slots: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    values: list[npt.NDArray[np.float32]]
    places: npt.NDArray[np.int32]
    _spread: npt.NDArray[np.bool_] = field(repr=False)
    _fitting: npt.NDArray[np.bool_] = field(repr=False)
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
        values = list(np.empty((chosen.size, n_rows), dtype=np.float32))
        places = np.empty((chosen.size, n_rows), dtype=np.int32)
        states = np.zeros(chosen.size, dtype=np.bool_), np.zeros(chosen.size, dtype=np.bool_)
        return cls(data, indices, indptr, slots, chosen, values, places, *states)

    def spread(self, slots: npt.NDArray[np.intp]) -> bool:
        """Have the columns in these slots ready, and return whether float32 can keep them."""
        if not self._spread.take(slots).all():
            with self._lock:
                for slot in set(slots.tolist()):
                    self._write(slot)
        return bool(self._fitting.take(slots).all())

    def _write(self, slot: int) -> None:
        if self._spread[slot]:  # maybe by another thread, and others may be reading
            return
        part = slice(*self.indptr[self.columns[slot] :][:2].tolist())
        rows, values = self.indices[part], self.data[part]
        if fit_float32(values):
            self.values[slot].fill(0)
            self.values[slot][rows] = values
            self.places[slot].fill(ABSENT)
            self.places[slot][rows] = np.arange(rows.size, dtype=np.int32)
            self._fitting[slot] = True
        self._spread[slot] = True
