"""Sums of the columns of a sparse matrix, such as the weights of words in chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


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
