"""The files of an index, and the layout that all sparse ones have.

Files are tables (``NAME.parquet``), arrays (``NAME.npy``) and JSON values (``NAME.json``), no
pickle. A sparse index is of the weights of words, or of a model's components, in chunks; these are
kept in ascending order of their ids, whatever the order of the corpus: the same chunks give the
same files, byte for byte. It is two tables: the row of a term is the number of its column, and the
postings of all terms follow one another in that order, each with the row of its chunk.
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
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.ordering import Positions, byte_order_ranks
from rag_assets.store.parquet_files import read_parquet

Floats = npt.NDArray[np.float64]

CHUNK_IDS = "chunk_ids"
"""The ids of an index's chunks, by position: a list of texts."""

TERMS, POSTINGS = "terms", "postings"
"""The tables of a sparse index: terms with their document frequency, and weights in chunks."""

PLAIN: dict[str, Any] = {
    "compression": "none",
    "use_dictionary": False,
    "write_statistics": False,
}
"""How tables are written: their numbers are read as they lie in the file."""


@dataclass(frozen=True)
class ArrayFolder:
    """A folder of an index; it exists."""

    path: Path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.path.iterdir())

    def save(self, **content: object) -> None:
        """Write tables, arrays, and JSON values."""
        for name, value in content.items():
            if isinstance(value, pa.Table):
                encoding = {"number": "DELTA_BINARY_PACKED"} if name == POSTINGS else None
                pq.write_table(value, self.table_file(name), column_encoding=encoding, **PLAIN)
            elif isinstance(value, np.ndarray):
                np.save(self.path / f"{name}.npy", value, allow_pickle=False)
            else:
                text = json.dumps(value, ensure_ascii=False, allow_nan=False)
                (self.path / f"{name}.json").write_text(text, encoding="utf-8")

    def array(self, name: str, *, mmap: bool = True) -> npt.NDArray[Any]:
        """Map an array, or read it."""
        file = self.path / f"{name}.npy"
        try:
            array = np.load(file, mmap_mode="r" if mmap else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise unreadable(file, error) from error
        return np.asarray(array)  # a view on the same memory, without the slow slices of np.memmap

    def table_file(self, name: str) -> Path:
        """Return where a table lies."""
        return self.path / f"{name}.parquet"

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a table, or some of its columns."""
        file = self.table_file(name)
        try:
            return read_parquet(file, columns, mapped=True)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(file, error) from error

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


def table_of(**columns: pa.Array | npt.NDArray[Any]) -> pa.Table:
    """Return a table without nulls. Arrays are not copied: ``pa.array`` would import pandas."""
    arrays = [
        pa.Array.from_buffers(
            pa.from_numpy_dtype(column.dtype), column.size, [None, pa.py_buffer(column)]
        )
        if isinstance(column, np.ndarray)
        else column
        for column in columns.values()
    ]
    named = zip(columns, arrays, strict=True)
    schema = pa.schema([pa.field(name, array.type, nullable=False) for name, array in named])
    return pa.Table.from_arrays(arrays, schema=schema)


def numbers_of(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers without nulls as an array; ``to_numpy`` would import pandas."""
    column = table.column(name)
    # combining one chunk copies it
    return np.from_dlpack(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())


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

    def save_tables(self, folder: ArrayFolder, terms: Sequence[str]) -> None:
        """Write ids and tables; ``terms`` are the names of the columns."""
        numbers = np.repeat(np.arange(len(terms), dtype=np.int32), self.holding)
        names, frequencies = pa.array(terms, pa.string()), self.holding
        tables = {
            TERMS: table_of(term=names, document_frequency=frequencies),
            POSTINGS: table_of(number=numbers, row=self.indices, weight=self.data),
        }
        folder.save(**{CHUNK_IDS: list(self.chunk_ids)}, **tables)


def load_sparse(folder: ArrayFolder, terms: pa.Table) -> SparseIndex:
    """Open what ``save_tables`` wrote, of which the table of terms is read already."""
    postings = folder.table(POSTINGS, ["row", "weight"])
    first_entries = np.concatenate([[0], np.cumsum(numbers_of(terms, "document_frequency"))])
    if first_entries[-1] != postings.num_rows:
        problem = f"{postings.num_rows} rows for {first_entries[-1]} of its terms"
        raise unreadable(folder.table_file(POSTINGS), problem)
    rows, weights = numbers_of(postings, "row"), numbers_of(postings, "weight")
    return SparseIndex(folder.texts(CHUNK_IDS), weights, rows, first_entries)
