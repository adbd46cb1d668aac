"""A flat index: the vectors of all chunks, one after the other in a mapped file, and their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.errors import DataError, StoreError
from rag_assets.models.unit_vectors import Vectors, check_unit_rows
from rag_assets.models.vector_cache import MakeVectors
from rag_assets.ordering import Positions, byte_order_ranks
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder

VECTORS_FILE = "vectors.npy"


@dataclass(frozen=True)
class FlatIndex:
    """Chunks and their vectors.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        vectors: float32, shape (len(chunk_ids), dimension).
    """

    chunk_ids: tuple[str, ...]
    vectors: Vectors

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    def restricted_to(self, positions: Positions) -> FlatIndex:
        """Return the index of these chunks alone, in their order; their vectors are copied."""
        return FlatIndex(tuple(self.chunk_ids[p] for p in positions), self.vectors[positions])

    @classmethod
    def load(cls, folder: Path) -> FlatIndex:
        """Open an index that ``build`` wrote; the vectors stay on disk until they are used.

        Raises:
            StoreError: the folder does not hold an index, or its files do not fit together.
        """
        files = ArrayFolder(folder)
        chunk_ids, vectors = tuple(files.texts(CHUNK_IDS)), files.array("vectors")
        if vectors.ndim != 2 or vectors.dtype != np.float32 or len(vectors) != len(chunk_ids):
            raise StoreError(
                f"embedding index {folder} is damaged: {len(chunk_ids)} ids, and vectors of shape "
                f"{vectors.shape} and type {vectors.dtype}"
            )
        return cls(chunk_ids, vectors)


def vectors_on_disk(folder: Path) -> MakeVectors:
    """Return what makes the array whose file ``build`` and ``save`` leave as it is.

    It is never in memory as a whole: the system writes what is filled, and forgets it, as it likes.
    """

    def make(shape: tuple[int, int], *, dtype: type[np.float32]) -> Vectors:
        array: Vectors = np.lib.format.open_memmap(folder / VECTORS_FILE, "w+", dtype, shape)
        return array

    return make


def build(chunk_ids: Sequence[str], vectors: Vectors, folder: Path) -> dict[str, Any]:
    """Write an index into an existing folder.

    Args:
        chunk_ids: unique ids of the chunks.
        vectors: float32, shape (len(chunk_ids), dimension), rows of length 1.
        folder: receives ``vectors.npy`` and ``chunk_ids.json``.

    Returns:
        Facts for the manifest: ``chunks``, ``dimension``, ``bytes`` (of the vectors).

    Raises:
        DataError: shapes do not fit, an id occurs twice, or a vector is NaN or not of length 1.
    """
    _check_shape(chunk_ids, vectors)
    check_unit_rows(vectors, lambda row: f"chunk '{chunk_ids[row]}'")
    return save(chunk_ids, vectors, folder)


def save(chunk_ids: Sequence[str], vectors: Vectors, folder: Path) -> dict[str, Any]:
    """Write vectors of any length as ``build`` does.

    Raises:
        DataError: shapes do not fit, or an id occurs twice.
    """
    _check_shape(chunk_ids, vectors)
    byte_order_ranks(chunk_ids)
    plain, file = np.ascontiguousarray(vectors, dtype=np.float32), folder / VECTORS_FILE
    made = vectors.filename if isinstance(vectors, np.memmap) else None
    if made is None or Path(made).resolve() != file.resolve():  # else it is there already
        np.save(file, plain, allow_pickle=False)
    ArrayFolder(folder).save(**{CHUNK_IDS: list(chunk_ids)})
    return {"chunks": len(plain), "dimension": plain.shape[1], "bytes": plain.nbytes}


def _check_shape(chunk_ids: Sequence[str], vectors: Vectors) -> None:
    if vectors.ndim != 2 or len(vectors) != len(chunk_ids):
        raise DataError(f"{len(chunk_ids)} chunks, but vectors of shape {vectors.shape}")
