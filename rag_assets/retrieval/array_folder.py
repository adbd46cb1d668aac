"""The files of an index, and the layout that all sparse ones have.

Files are named arrays (``NAME.npy``) and JSON values (``NAME.json``), no pickle. A sparse index is
of the weights of words, or of a model's components, in chunks; these are kept in ascending order of
their ids, whatever the order of the corpus: the same chunks give the same files, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.errors import StoreError
from rag_assets.ordering import Positions, byte_order_ranks

Floats = npt.NDArray[np.float64]

CHUNK_IDS = "chunk_ids"
"""The ids of an index's chunks, by position: a list of texts."""


@dataclass(frozen=True)
class ArrayFolder:
    """A folder of an index; it exists."""

    path: Path

    def save(self, **content: object) -> int:
        """Write arrays, and JSON values in the order of their keys."""
        size = 0
        for name, value in content.items():
            if isinstance(value, np.ndarray):
                np.save(self.path / f"{name}.npy", value, allow_pickle=False)
                size += value.nbytes
            else:
                text = json.dumps(value, ensure_ascii=False, allow_nan=False)
                (self.path / f"{name}.json").write_text(text, encoding="utf-8")
        return size

    def array(self, name: str, *, mmap: bool = True) -> npt.NDArray[Any]:
        """Map an array, or read it."""
        file = self.path / f"{name}.npy"
        try:
            array = np.load(file, mmap_mode="r" if mmap else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise unreadable(file, error) from error
        return np.asarray(array)  # a view on the same memory, without the slow slices of np.memmap

    def texts(self, name: str) -> list[str]:
        """Read a JSON list."""
        value = self._value(name)
        if not isinstance(value, list):
            raise unreadable(self.path / f"{name}.json", "not a JSON list")
        return value

    def mapping(self, name: str, keys: Iterable[str] = ()) -> dict[str, Any]:
        """Read a JSON object that has at least these keys."""
        value = self._value(name)
        if not isinstance(value, dict) or not value.keys() >= set(keys):
            problem = f"not a JSON object with the keys {list(keys)}"
            raise unreadable(self.path / f"{name}.json", problem)
        return value

    def _value(self, name: str) -> object:
        file = self.path / f"{name}.json"
        try:
            value: object = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from error
        return value


def unreadable(path: Path, reason: Exception | str) -> StoreError:
    """Return the error of a file of an index that cannot be read."""
    text = getattr(reason, "strerror", None) or str(reason)
    return StoreError(f"{path}: file of an index cannot be read: {text}")


_FILES = ("weights", "chunks", "first_entries")


@dataclass(frozen=True)
class SparseIndex:
    """A sparse matrix by columns: the entries of column t lie at ``indptr[t]`` to ``indptr[t+1]``.

    Attributes:
        chunk_ids: ids of the chunks, the rows; positions refer to this order.
        data: number of each entry: a weight as float32 or float64, or a count, shape (entries,).
        indices: row of each entry, ascending within a column, int32, shape (entries,).
        indptr: first entry of each column, int64, shape (columns + 1,).
    """

    chunk_ids: Sequence[str]
    data: npt.NDArray[Any]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]

    @property
    def holding(self) -> npt.NDArray[np.int64]:
        """Number of chunks with an entry in each column, int64, shape (columns,)."""
        return np.diff(self.indptr)

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    def sums(self, columns: Sequence[int], factors: Sequence[float] | None = None) -> Floats:
        """Return the sum of some columns, each times its factor, added in the order of ``columns``.

        Returns:
            float64, shape (chunks,); 0 where no column has an entry.
        """
        if not columns:
            return np.zeros(len(self.chunk_ids))
        entries = [slice(self.indptr[column], self.indptr[column + 1]) for column in columns]
        rows = np.concatenate([self.indices[part] for part in entries])
        values = [self.data[part] for part in entries]
        if factors is not None:
            pairs = zip(values, factors, strict=True)
            values = [np.multiply(part, factor, dtype=np.float64) for part, factor in pairs]
        # adds in the order of the entries, so in the order of the columns, in one compiled loop
        weights = np.concatenate(values)
        totals = np.bincount(rows, weights=weights, minlength=len(self.chunk_ids))
        return totals.astype(np.float64, copy=False)

    def save_columns(self, folder: ArrayFolder) -> int:
        """Write ids and columns, and return the bytes of the columns."""
        folder.save(**{CHUNK_IDS: list(self.chunk_ids)})
        arrays = (self.data, self.indices, self.indptr)
        return folder.save(**dict(zip(_FILES, arrays, strict=True)))


def load_columns(folder: ArrayFolder) -> SparseIndex:
    """Open what ``save_columns`` wrote; the arrays are mapped."""
    data, indices, indptr = (folder.array(name) for name in _FILES)
    if not (data.shape == indices.shape == (indptr[-1:].sum(),)):
        sizes = f"{data.size} values for {indices.size} rows"
        raise unreadable(folder.path / f"{_FILES[-1]}.npy", sizes)
    return SparseIndex(folder.texts(CHUNK_IDS), data, indices, indptr)
