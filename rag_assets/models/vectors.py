"""Vectors: of length 1 and checked, and how they lie in a cache.

A text has one vector, one for each of its tokens, or one without its zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.models.cache_fill import Stored, Values, objects

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


TokenVectors = npt.NDArray[np.float16]
"""Shape (tokens, dimension)."""


class MakeVectors(Protocol):
    """Gives an array of a shape, as ``numpy.zeros`` does; it may lie on disk."""

    def __call__(self, shape: tuple[int, int], *, dtype: type[np.float32]) -> Vectors:
        """Return it."""


class SparseVector(NamedTuple):
    """The components of a vector that are not 0.

    Attributes:
        components: int32, ascending.
        weights: float32, of the same length.
    """

    components: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]


def _dense_columns(vectors: Values) -> list[pa.Array]:
    kind = pa.list_(pa.field("item", pa.float32(), False), vectors.shape[1])
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    return [pa.FixedSizeListArray.from_arrays(flat, type=kind)]


def _dense_values(table: pa.Table) -> Values:
    column = pa.concat_arrays(table["vector"].chunks)
    flat = column.flatten().to_numpy()
    return np.asarray(flat, dtype=np.float32).reshape(-1, column.type.list_size)


DENSE_VECTORS = Stored(
    pa.schema([pa.field("vector", pa.list_(pa.float32()), False)]),
    _dense_columns,
    _dense_values,
    np.empty((0, 0), dtype=np.float32),
)


def _token_columns(texts: Values) -> list[pa.Array]:
    dimensions = pa.array([vectors.shape[1] for vectors in texts], pa.int32())
    contents = [vectors.astype("<f2").tobytes() for vectors in texts]
    return [dimensions, pa.array(contents, pa.large_binary())]


def _token_values(table: pa.Table) -> Values:
    rows = zip(table["dimension"].to_pylist(), table["vectors"].to_pylist(), strict=True)
    return objects([np.frombuffer(vectors, "<f2").reshape(-1, size) for size, vectors in rows])


TOKEN_VECTORS = Stored(
    pa.schema(
        [pa.field("dimension", pa.int32(), False), pa.field("vectors", pa.large_binary(), False)]
    ),
    _token_columns,
    _token_values,
    objects([]),
)


def _sparse_columns(vectors: Values) -> list[pa.Array]:
    components = [vector.components.astype("<i4").tobytes() for vector in vectors]
    weights = [vector.weights.astype("<f4").tobytes() for vector in vectors]
    return [pa.array(components, pa.large_binary()), pa.array(weights, pa.large_binary())]


def _sparse_values(table: pa.Table) -> Values:
    rows = zip(table["components"].to_pylist(), table["weights"].to_pylist(), strict=True)
    return objects(
        [SparseVector(np.frombuffer(c, "<i4"), np.frombuffer(w, "<f4")) for c, w in rows]
    )


SPARSE_VECTORS = Stored(
    pa.schema([pa.field(name, pa.large_binary(), False) for name in ("components", "weights")]),
    _sparse_columns,
    _sparse_values,
    objects([]),
)
