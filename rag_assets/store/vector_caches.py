"""Vectors by content: a text that was embedded once is never embedded again.

A space is everything that determines a vector but the text; each space has its own folder of
segments (:mod:`rag_assets.store.segments`), which several processes may write at once. A text has
one vector, or one for each of its tokens, or one of which the zeros are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import DataError, StoreError
from rag_assets.store.segments import KEY, Segments, same_types, text_keys

Vectors = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


class MakeVectors(Protocol):
    """Gives an array of a shape, as ``numpy.zeros`` does; it may lie on disk."""

    def __call__(self, shape: tuple[int, int], *, dtype: type[np.float32]) -> Vectors:
        """Return it."""


_WRITING = {
    "compression": "none",  # dense vectors do not compress
    "use_dictionary": False,
    "write_statistics": False,
}


class VectorCache:
    """The vectors of one space."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        self.folder = root / space[:16]
        self._segments = Segments(self.folder, ["vector"], _check, "vector cache", _WRITING)

    def get(self, texts: Sequence[str], make: MakeVectors = np.zeros) -> tuple[Vectors, Mask]:
        """Look texts up.

        Args:
            texts: the exact texts that were embedded, with their prompt.
            make: gives the array that receives the vectors.

        Returns:
            Vectors, float32, shape (len(texts), dimension), rows of zeros where nothing is known
            (dimension 0 when no text is), and a mask, shape (len(texts),), of what was found.

        Raises:
            StoreError: the vectors are not of one dimension.
        """
        vectors: Vectors = np.empty((len(texts), 0), dtype=np.float32)
        hits = np.zeros(len(texts), dtype=np.bool_)
        for part in self._segments.find(text_keys(texts)):
            content = _matrix(part.values.column("vector"))
            if not vectors.shape[1]:
                vectors = make((len(texts), content.shape[1]), dtype=np.float32)
            if content.shape[1] != vectors.shape[1]:
                sizes = f"{vectors.shape[1]} and of {content.shape[1]} dimensions"
                raise StoreError(
                    f"{self.folder} holds vectors of {sizes}, of one model; remove this folder, "
                    "and they are computed again"
                )
            vectors[part.asked] = content[part.rows]
            hits[part.asked] = True
        return vectors, hits

    def put(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Add vectors, those of unknown texts only.

        Args:
            texts: the exact texts that were embedded, with their prompt.
            vectors: float32, shape (len(texts), dimension).

        Raises:
            DataError: the shape does not fit, or a vector holds NaN or infinity.
            StoreError: the folder cannot be written.
        """
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.dtype != np.float32:
            raise DataError(
                f"{len(texts)} texts, but vectors of shape {vectors.shape}, {vectors.dtype}"
            )
        if not np.isfinite(vectors).all():
            raise DataError("a vector holds NaN or infinity and is not cached")
        keys = text_keys(texts)
        new = self._segments.unknown(keys)
        if new.size:
            self._segments.add(_table(keys.take(pa.array(new)), vectors[new]))


def _table(keys: pa.Array, vectors: Vectors) -> pa.Table:
    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    item = pa.field("item", pa.float32(), nullable=False)
    vector = pa.list_(item, vectors.shape[1])
    schema = pa.schema([pa.field("key", KEY, False), pa.field("vector", vector, False)])
    columns = [keys, pa.FixedSizeListArray.from_arrays(flat, type=vector)]
    return pa.Table.from_arrays(columns, schema=schema)


def _matrix(column: pa.ChunkedArray) -> Vectors:
    values = pa.concat_arrays(column.chunks)
    dimension = values.type.list_size
    return np.asarray(values.flatten().to_numpy(), dtype=np.float32).reshape(-1, dimension)


def _check(schema: pa.Schema) -> None:
    column_type = schema.field("vector").type
    if not (pa.types.is_fixed_size_list(column_type) and column_type.value_type == pa.float32()):
        raise ValueError(f"column vector is {column_type}")


TokenVectors = npt.NDArray[np.float16]
"""Shape (tokens, dimension)."""

_TOKENS_SCHEMA = pa.schema(
    [
        pa.field("key", KEY, False),
        pa.field("dimension", pa.int32(), False),
        pa.field("vectors", pa.large_binary(), False),
    ]
)


class TokenVectorCache:
    """The token vectors of one space: of everything that determines them but the text."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        self._segments = Segments(
            root / space[:16],
            ["dimension", "vectors"],
            same_types(_TOKENS_SCHEMA),
            "token vector cache",
            _WRITING,
        )

    def get(self, texts: Sequence[str]) -> dict[str, TokenVectors]:
        """Return the vectors of those texts that are known."""
        hits: dict[str, TokenVectors] = {}
        for part in self._segments.find(text_keys(texts)):
            chosen = part.values.take(pa.array(part.rows))
            columns = (chosen.column(name).to_pylist() for name in ("dimension", "vectors"))
            for asked, dimension, content in zip(part.asked.tolist(), *columns, strict=True):
                flat = np.frombuffer(content, dtype="<f2")
                hits[texts[asked]] = flat.reshape(-1, dimension)
        return hits

    def put(self, vectors: Mapping[str, TokenVectors]) -> None:
        """Add the vectors of unknown texts.

        Raises:
            StoreError: the folder cannot be written.
        """
        texts = list(vectors)
        keys = text_keys(texts)
        new = self._segments.unknown(keys)
        if not new.size:
            return
        chosen = [vectors[texts[i]] for i in new.tolist()]
        columns = [
            keys.take(pa.array(new)),
            pa.array([own.shape[1] for own in chosen], pa.int32()),
            pa.array([own.astype("<f2").tobytes() for own in chosen], pa.large_binary()),
        ]
        self._segments.add(pa.Table.from_arrays(columns, schema=_TOKENS_SCHEMA))


_SPARSE_SCHEMA = pa.schema(
    [
        pa.field("key", KEY, False),
        pa.field("components", pa.large_binary(), False),
        pa.field("weights", pa.large_binary(), False),
    ]
)
_SPARSE_WRITING = {**_WRITING, "compression": "zstd"}


class SparseVector(NamedTuple):
    """The components of a vector that are not 0.

    Attributes:
        components: int32, ascending.
        weights: float32, of the same length.
    """

    components: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]


class SparseVectorCache:
    """The sparse vectors of one space: of everything that determines them but the text."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        columns = ["components", "weights"]
        name = "sparse vector cache"
        self._segments = Segments(
            root / space[:16], columns, same_types(_SPARSE_SCHEMA), name, _SPARSE_WRITING
        )

    def get(self, texts: Sequence[str]) -> dict[str, SparseVector]:
        """Return the vectors of those texts that are known."""
        hits: dict[str, SparseVector] = {}
        for part in self._segments.find(text_keys(texts)):
            chosen = part.values.take(pa.array(part.rows))
            columns = (chosen.column(name).to_pylist() for name in ("components", "weights"))
            for asked, components, weights in zip(part.asked.tolist(), *columns, strict=True):
                hits[texts[asked]] = SparseVector(
                    np.frombuffer(components, dtype="<i4"), np.frombuffer(weights, dtype="<f4")
                )
        return hits

    def put(self, vectors: Mapping[str, SparseVector]) -> None:
        """Add the vectors of unknown texts.

        Raises:
            StoreError: the folder cannot be written.
        """
        texts = list(vectors)
        keys = text_keys(texts)
        new = self._segments.unknown(keys)
        if not new.size:
            return
        chosen = [vectors[texts[i]] for i in new.tolist()]
        components = [own.components.astype("<i4").tobytes() for own in chosen]
        weights = [own.weights.astype("<f4").tobytes() for own in chosen]
        columns = [
            keys.take(pa.array(new)),
            pa.array(components, pa.large_binary()),
            pa.array(weights, pa.large_binary()),
        ]
        self._segments.add(pa.Table.from_arrays(columns, schema=_SPARSE_SCHEMA))
