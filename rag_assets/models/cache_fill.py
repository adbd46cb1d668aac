"""Vectors, and one way to fill a cache with values by content.

A value is looked up, or computed once and stored as it comes. New values are stored in portions, so
that a killed run loses a minute at most; where another process computed the same first, its value
is the one that stays.

A text has one vector, one for each of its tokens, or one without its zeros.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.compute.compute import Compute
from rag_assets.errors import DataError, ModelUnavailable, StoreError
from rag_assets.store.content_cache import ContentCache

Values = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int_]
Progress = Callable[[int, int], None]
Item = TypeVar("Item")

SPACE_DIGITS = 16
"""So many digits of a space's fingerprint name its folder."""

FLUSH_ROWS = 2_000
FLUSH_SECONDS = 60.0


class MakeArray(Protocol):
    """Gives an array of a shape, as ``numpy.zeros`` does; it may lie on disk."""

    def __call__(self, shape: Any, *, dtype: Any) -> Values:  # noqa: ANN401 (numpy's)
        """Return it."""


@dataclass(frozen=True)
class Stored:
    """How values lie in the columns of a cache.

    Attributes:
        schema: the columns.
        columns: gives them for an array of values.
        values: gives the array back; its first axis is that of the rows.
        nothing: an array of no value.
    """

    schema: pa.Schema
    columns: Callable[[Values], list[pa.Array]]
    values: Callable[[pa.Table], Values]
    nothing: Values


def numbers(name: str, dtype: type[np.generic]) -> Stored:
    """Return how one number for each key is stored, in a column of this name."""
    nothing = np.empty(0, dtype=dtype)
    schema = pa.schema([pa.field(name, pa.from_numpy_dtype(nothing.dtype), False)])
    return Stored(
        schema, lambda values: [pa.array(values)], lambda table: table[name].to_numpy(), nothing
    )


def objects(values: Sequence[object]) -> Values:
    """Return an array that holds objects, whatever they are made of."""
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


class ValueCache:
    """The values of one space: of all that determines a value but its key."""

    def __init__(self, folder: Path, stored: Stored) -> None:
        """Use ``folder``; it is created by the first value."""
        self.folder = folder
        self._stored = stored
        self._cache = ContentCache(folder, stored.schema)

    @classmethod
    def of_space(cls, root: Path, space: str, stored: Stored) -> Self:
        """Use the folder of a space, which is named by a fingerprint, below ``root``."""
        return cls(root / space[:SPACE_DIGITS], stored)

    def get(
        self, keys: pa.Array, make: MakeArray = np.zeros
    ) -> tuple[Values | None, npt.NDArray[np.bool_]]:
        """Look keys up.

        Returns:
            The values, with what ``make`` gives where nothing is known, None where nothing is
            known at all; and which keys are known.

        Raises:
            StoreError: the values are not of one shape.
        """
        values: Values | None = None
        is_known = np.zeros(len(keys), dtype=np.bool_)
        for hits in self._cache.find(keys):
            content = self._stored.values(hits.values)
            if values is None:
                values = make((len(keys), *content.shape[1:]), dtype=content.dtype)
            if content.shape[1:] != values.shape[1:]:
                sizes = f"{values.shape[1]} and of {content.shape[1]} dimensions"
                raise StoreError(
                    f"{self.folder} holds vectors of {sizes}, of one model; remove this "
                    "folder to compute them again"
                )
            values[hits.asked] = content[hits.rows]
            is_known[hits.asked] = True
        return values, is_known

    def put(self, keys: pa.Array, values: Values) -> None:
        """Add the values of unknown keys.

        Raises:
            DataError: a value holds NaN or infinity.
            StoreError: the folder cannot be written.
        """
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DataError("a value is NaN or infinite and is not cached")
        self._cache.put(keys, self._stored.columns(values))


def filled(
    keys: pa.Array,
    stored: Stored,
    cache: ValueCache | None,
    compute: Callable[[Rows], Iterator[tuple[Rows, Values]]],
    *,
    progress: Progress | None = None,
    make: MakeArray = np.zeros,
) -> Values:
    """Return the value of each key, in the order of the keys.

    Args:
        keys: may repeat; each is looked up or computed once.
        stored: how values are stored.
        cache: None remembers nothing.
        compute: yields rows of those that it is given, and their values; a row that it leaves out
            stays as ``make`` gave it.
        progress: called with (rows computed, rows to compute); not at all when none is missing.
        make: gives the array that receives the values.

    Raises:
        StoreError: the cache cannot be written, or holds values of several shapes.
        DataError: a value holds NaN or infinity, and there is a cache.
        ModelUnavailable: new vectors are of another dimension than the others.
    """
    if not len(keys):
        return stored.nothing
    values, is_known = cache.get(keys, make) if cache is not None else (None, np.zeros(len(keys)))
    codes = keys.dictionary_encode().indices.to_numpy()
    first = np.unique(codes, return_index=True)[1]
    missing = first[is_known[first] == 0]
    n_done = 0
    with _Portions(cache, keys) as portions:
        for rows, part in compute(missing) if missing.size else ():
            if values is None:
                values = make((len(keys), *part.shape[1:]), dtype=part.dtype)
            if part.shape[1:] != values.shape[1:]:
                sizes = f"{values.shape[1]} dimensions, then of {part.shape[1]}"
                raise ModelUnavailable(f"the model is not available: it gave vectors of {sizes}")
            values[rows] = part
            portions.add(rows, part)
            n_done += len(rows)
            if progress is not None:
                progress(n_done, missing.size)
    if values is None:
        return make((len(keys), *stored.nothing.shape[1:]), dtype=stored.nothing.dtype)
    if cache is not None:
        for start in range(0, len(missing), FLUSH_ROWS):
            some = missing[start : start + FLUSH_ROWS]
            present, is_present = cache.get(keys.take(pa.array(some)))
            if present is not None:
                values[some[is_present]] = present[is_present]
    again = np.flatnonzero(first[codes] != np.arange(len(keys)))
    values[again] = values[first[codes[again]]]
    return values


def in_groups(
    items: Sequence[Item],
    rows: Rows,
    lengths: Callable[[Sequence[Item]], Lengths],
    work: Callable[[list[Item]], Values],
    size: int,
    compute: Compute,
) -> Iterator[tuple[Rows, Values]]:
    """Yield what ``work`` makes of groups of rows, longest first: those of a group are of a length.

    Args:
        items: of all rows.
        rows: those to work on.
        lengths: by what they are sorted.
        work: is given the items of a group; it can be pickled.
        size: rows of a group.
        compute: where groups are worked on.
    """
    order = rows[np.argsort(-lengths([items[row] for row in rows.tolist()]), kind="stable")]
    groups = [order[start : start + size] for start in range(0, len(order), size)]
    blocks = (([items[row] for row in group.tolist()],) for group in groups)
    for number, part in compute.map(work, blocks):
        yield groups[number], part


@dataclass
class _Portions:
    """Stores values when there are many, late, or at its end, also by an error or interruption."""

    cache: ValueCache | None
    keys: pa.Array
    rows: list[Rows] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    written_at: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def add(self, rows: Rows, values: Values) -> None:
        self.rows.append(rows)
        self.values.append(values)
        is_late = time.monotonic() - self.written_at >= FLUSH_SECONDS
        if is_late or sum(map(len, self.rows)) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.cache is not None and self.rows:
            keys = self.keys.take(pa.array(np.concatenate(self.rows)))
            self.cache.put(keys, np.concatenate(self.values))
        self.rows, self.values = [], []
        self.written_at = time.monotonic()


Vectors = npt.NDArray[np.float32]

LENGTH_TOLERANCE = 1e-3
"""How far from 1 a length may be: far above the rounding of fp32, far below a real difference."""

LONGEST = 1e18
"""Length of a vector at most: its square, and a product of two, are fp32 numbers."""


def as_wanted(
    vectors: npt.NDArray[np.floating], name_of: Callable[[int], str], *, normalise: bool
) -> Vectors:
    """Return the rows as float32: divided by their Euclidean length, or as they are, checked.

    Args:
        vectors: shape (n, d).
        name_of: what to call row ``i`` in an error.
        normalise: whether they are brought to length 1.

    Raises:
        DataError: a row holds NaN or infinity, or has length 0 and is to have 1, or is longer than
            1e18 and stays so; the first one is named.
    """
    if normalise:
        wide = vectors.astype(np.float64)
        unit: Vectors = (wide / _lengths_of_directions(wide, name_of)[:, None]).astype(np.float32)
        return unit
    plain: Vectors = np.asarray(vectors, dtype=np.float32)
    checked_lengths(plain, name_of)
    return plain


def check_unit_rows(vectors: Vectors, name_of: Callable[[int], str]) -> None:
    """Check that all rows have length 1; raises DataError, which names the first that has not."""
    lengths = _lengths_of_directions(vectors, name_of)
    _check(np.abs(lengths - 1.0) <= LENGTH_TOLERANCE, lengths, name_of, "it must be 1")


def checked_lengths(vectors: Vectors, name_of: Callable[[int], str]) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each row, in float64; raises DataError above 1e18, or NaN."""
    lengths = _lengths(vectors)
    _check(lengths <= LONGEST, lengths, name_of, "it must be at most 1e18")
    return lengths


def _lengths(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    squares: npt.NDArray[np.float64] = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.sqrt(squares)


def _lengths_of_directions(
    vectors: npt.NDArray[np.floating], name_of: Callable[[int], str]
) -> npt.NDArray[np.float64]:
    """Return the length of each row, which must have a direction."""
    lengths = _lengths(vectors)
    for row in np.flatnonzero(~np.isfinite(lengths) | (lengths == 0.0))[:1].tolist():
        what = "has length 0" if lengths[row] == 0.0 else "holds NaN or infinity"
        raise DataError(f"vector of {name_of(row)} {what}; it has no direction to compare")
    return lengths


def _check(
    is_right: npt.NDArray[np.bool_],
    lengths: npt.NDArray[np.float64],
    name_of: Callable[[int], str],
    rule: str,
) -> None:
    for row in np.flatnonzero(~is_right)[:1].tolist():
        raise DataError(f"vector of {name_of(row)} has length {lengths[row]:.6g}; {rule}")


TokenVectors = npt.NDArray[np.float16]
"""Shape (tokens, dimension)."""


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
