"""A sparse matrix by columns, and the arrays in which its columns are added."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.lexical.dense_columns import DenseColumns


class Space(NamedTuple):
    """Arrays of a value for each cell, used again for each block.

    Attributes:
        sums: anything.
        marks: all False, except while they are used.
        numbers: anything.
    """

    sums: npt.NDArray[np.float32]
    marks: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.int32]

    @classmethod
    def of(cls, n_cells: int) -> Space:
        """Make them."""
        sums, numbers = np.empty(n_cells, dtype=np.float32), np.empty(n_cells, dtype=np.int32)
        return cls(sums, np.zeros(n_cells, dtype=np.bool_), numbers)


@dataclass(frozen=True)
class SparseColumns:
    """A sparse matrix by columns whose values are not negative.

    Attributes:
        data: value of each entry, float64, shape (entries,).
        indices: row of each entry, ascending within a column, int32, shape (entries,).
        indptr: first entry of each column, int64, shape (columns + 1,).
        n_rows: number of rows.
    """

    data: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    n_rows: int
    _own: threading.local = field(default_factory=threading.local, repr=False)

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
