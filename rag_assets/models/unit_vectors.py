"""Vectors of length 1: how they are made and how they are checked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rag_assets.errors import DataError

Vectors = npt.NDArray[np.float32]

LENGTH_TOLERANCE = 1e-3
"""How far from 1 a length may be: far above the rounding of fp32, far below a real difference."""

LONGEST = 1e18
"""Length of a vector at most: its square, and a product of two, are fp32 numbers."""


def to_unit_rows(vectors: npt.NDArray[np.floating], name_of: Callable[[int], str]) -> Vectors:
    """Return the rows divided by their Euclidean length, as float32.

    Args:
        vectors: shape (n, d).
        name_of: what to call row ``i`` in an error.

    Raises:
        DataError: a row holds NaN or infinity, or has length 0.
    """
    wide = vectors.astype(np.float64)
    lengths = _lengths(wide, name_of)
    unit: Vectors = (wide / lengths[:, None]).astype(np.float32)
    return unit


def check_unit_rows(vectors: Vectors, name_of: Callable[[int], str]) -> None:
    """Check that all rows have length 1.

    Raises:
        DataError: a row does not; the first one is named.
    """
    lengths = _lengths(vectors, name_of)
    wrong = np.flatnonzero(np.abs(lengths - 1.0) > LENGTH_TOLERANCE)
    if wrong.size:
        row = int(wrong[0])
        raise DataError(f"vector of {name_of(row)} has length {lengths[row]:.6g}; it must be 1")


def _lengths(
    vectors: npt.NDArray[np.floating], name_of: Callable[[int], str]
) -> npt.NDArray[np.float64]:
    squares: npt.NDArray[np.float64] = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(squares) | (squares == 0.0))
    if wrong.size:
        row = int(wrong[0])
        what = "has length 0" if squares[row] == 0.0 else "holds NaN or infinity"
        raise DataError(f"vector of {name_of(row)} {what}; it has no direction to compare")
    return np.sqrt(squares)


def checked_lengths(vectors: Vectors, name_of: Callable[[int], str]) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each row, in float64.

    Raises:
        DataError: a row holds NaN or infinity, or is longer than 1e18; the first one is named.
    """
    lengths: npt.NDArray[np.float64] = np.sqrt(
        np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    )
    wrong = np.flatnonzero(~(lengths <= LONGEST))
    if wrong.size:
        row = int(wrong[0])
        raise DataError(
            f"vector of {name_of(row)} has length {lengths[row]:.6g}; it must be at most 1e18"
        )
    return lengths
