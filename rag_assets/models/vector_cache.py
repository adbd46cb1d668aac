"""Vectors by content: a text that was embedded once is never embedded again.

A text has one vector, or one for each of its tokens, or one of which the zeros are left out. All
lie in :class:`rag_assets.store.content_cache.ContentCache`, in a folder for each space: for all
that determines a vector but the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import DataError, StoreError
from rag_assets.store.content_cache import ContentCache, text_keys

Vectors = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

Encoded = TypeVar("Encoded")

SPACE_DIGITS = 16
"""So many digits of a space's fingerprint name its folder."""


class MakeVectors(Protocol):
    """Gives an array of a shape, as ``numpy.zeros`` does; it may lie on disk."""

    def __call__(self, shape: tuple[int, int], *, dtype: type[np.float32]) -> Vectors:
        """Return it."""


class VectorCache:
    """The dense vectors of one space."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        self.folder = root / space[:SPACE_DIGITS]
        vector = pa.field("vector", pa.list_(pa.float32()), False)
        self._cache = ContentCache(self.folder, pa.schema([vector]))

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
        is_known = np.zeros(len(texts), dtype=np.bool_)
        for hits in self._cache.find(text_keys(texts)):
            content = _matrix(hits.values.column("vector"))
            if not vectors.shape[1]:
                vectors = make((len(texts), content.shape[1]), dtype=np.float32)
            if content.shape[1] != vectors.shape[1]:
                sizes = f"{vectors.shape[1]} and of {content.shape[1]} dimensions"
                raise StoreError(
                    f"{self.folder} holds vectors of {sizes}, of one model; remove this folder, "
                    "and they are computed again"
                )
            vectors[hits.asked] = content[hits.rows]
            is_known[hits.asked] = True
        return vectors, is_known

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
        kind = pa.list_(pa.field("item", pa.float32(), False), vectors.shape[1])
        flat = pa.array(np.ascontiguousarray(vectors).ravel())
        self._cache.put(text_keys(texts), [pa.FixedSizeListArray.from_arrays(flat, type=kind)])


def _matrix(column: pa.ChunkedArray) -> Vectors:
    values = pa.concat_arrays(column.chunks)
    dimension = values.type.list_size
    return np.asarray(values.flatten().to_numpy(), dtype=np.float32).reshape(-1, dimension)


@dataclass(frozen=True)
class Stored(Generic[Encoded]):
    """How what a text is encoded as lies in a cache.

    Attributes:
        schema: its columns.
        to_row: gives their values.
        from_row: gives back what it was.
    """

    schema: pa.Schema
    to_row: Callable[[Encoded], tuple[Any, ...]]
    from_row: Callable[..., Encoded]


class EncodedCache(Generic[Encoded]):
    """What the texts of one space are encoded as, where that is no row of a matrix."""

    def __init__(self, root: Path, space: str, stored: Stored[Encoded]) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        self._stored = stored
        self._cache = ContentCache(root / space[:SPACE_DIGITS], stored.schema)

    def get(self, texts: Sequence[str]) -> dict[str, Encoded]:
        """Return what those texts are encoded as that are known."""
        known: dict[str, Encoded] = {}
        for hits in self._cache.find(text_keys(texts)):
            columns = [column.to_pylist() for column in hits.chosen().columns]
            for asked, *row in zip(hits.asked.tolist(), *columns, strict=True):
                known[texts[asked]] = self._stored.from_row(*row)
        return known

    def put(self, encoded: Mapping[str, Encoded]) -> None:
        """Add what unknown texts are encoded as.

        Raises:
            StoreError: the folder cannot be written.
        """
        rows = [self._stored.to_row(one) for one in encoded.values()]
        columns = zip(*rows, strict=True) if rows else ((),) * len(self._stored.schema)
        fields = zip(self._stored.schema, columns, strict=True)
        self._cache.put(text_keys([*encoded]), [pa.array(part, f.type) for f, part in fields])


TokenVectors = npt.NDArray[np.float16]
"""Shape (tokens, dimension)."""

TOKEN_VECTORS: Stored[TokenVectors] = Stored(
    pa.schema(
        [pa.field("dimension", pa.int32(), False), pa.field("vectors", pa.large_binary(), False)]
    ),
    lambda own: (own.shape[1], own.astype("<f2").tobytes()),
    lambda dimension, content: np.frombuffer(content, dtype="<f2").reshape(-1, dimension),
)


class SparseVector(NamedTuple):
    """The components of a vector that are not 0.

    Attributes:
        components: int32, ascending.
        weights: float32, of the same length.
    """

    components: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]


SPARSE_VECTORS: Stored[SparseVector] = Stored(
    pa.schema(
        [
            pa.field("components", pa.large_binary(), False),
            pa.field("weights", pa.large_binary(), False),
        ]
    ),
    lambda own: (own.components.astype("<i4").tobytes(), own.weights.astype("<f4").tobytes()),
    lambda components, weights: SparseVector(
        np.frombuffer(components, dtype="<i4"), np.frombuffer(weights, dtype="<f4")
    ),
)
