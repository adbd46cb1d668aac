"""A sparse matrix by columns: the weights of words, or of a model's components, in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.array_folder import ArrayFolder, unreadable

Floats = npt.NDArray[np.float64]

FILES = ("weights", "chunks", "first_entries")
"""The names of the arrays in a folder."""


@dataclass(frozen=True)
class SparseColumns:
    """The entries of column t lie at ``indptr[t]`` to ``indptr[t + 1]``.

    Attributes:
        data: value of each entry, float32 or float64, shape (entries,).
        indices: row of each entry, ascending within a column, int32, shape (entries,).
        indptr: first entry of each column, int64, shape (columns + 1,).
        n_rows: number of rows.
    """

    data: npt.NDArray[np.floating]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    n_rows: int

    def sums(self, columns: Sequence[int], factors: Sequence[float] | None = None) -> Floats:
        """Return the sum of some columns, each times its factor, added in the order of ``columns``.

        Args:
            columns: their numbers; one that is repeated is added as often.
            factors: one for each of ``columns``; None is 1.

        Returns:
            float64, shape (n_rows,); 0 where no column has an entry.
        """
        if not columns:
            return np.zeros(self.n_rows)
        entries = [slice(self.indptr[column], self.indptr[column + 1]) for column in columns]
        rows = np.concatenate([self.indices[part] for part in entries])
        values = [self.data[part] for part in entries]
        if factors is not None:
            pairs = zip(values, factors, strict=True)
            values = [np.multiply(part, factor, dtype=np.float64) for part, factor in pairs]
        # adds in the order of the entries, so in the order of the columns, in one compiled loop
        totals = np.bincount(rows, weights=np.concatenate(values), minlength=self.n_rows)
        return totals.astype(np.float64, copy=False)


def save_columns(columns: SparseColumns, folder: ArrayFolder, files: Sequence[str] = FILES) -> int:
    """Write the arrays, and return their bytes."""
    arrays = (columns.data, columns.indices, columns.indptr)
    return folder.save(**dict(zip(files, arrays, strict=True)))


def load_columns(
    folder: ArrayFolder, n_rows: int, files: Sequence[str] = FILES, *, mmap: bool = True
) -> SparseColumns:
    """Map the arrays, or read them.

    Raises:
        StoreError: a file is missing or damaged, or they do not fit together.
    """
    data, indices, indptr = (folder.array(name, mmap=mmap) for name in files)
    if not (data.shape == indices.shape == (indptr[-1:].sum(),)):
        sizes = f"{data.size} values for {indices.size} rows"
        raise unreadable(folder.path / f"{files[-1]}.npy", sizes)
    return SparseColumns(data, indices, indptr, n_rows)
