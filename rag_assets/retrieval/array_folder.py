"""The files of an index, and the layout that all sparse ones have.

Files are tables (``NAME.parquet``), arrays (``NAME.npy``) and JSON values (``NAME.json``), no
pickle. A sparse index says how often words stand in chunks, or what a model's components weigh in
them. Chunks are kept in ascending order of their ids, whatever the order of the corpus: the same
chunks give the same files, byte for byte. It lies in segments, each of some chunks that follow one
another, as three tables: chunks; terms, where the row of a term is the number of its column; and
postings, those of all terms one after the other in that order, each with the row of its chunk in
the segment. What is of all chunks, such as in how many a term stands, is summed when it is opened:
so a changed chunk changes the files of its segment, and those of the others are the same.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.store.parquet_files import read_parquet

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

CHUNK_IDS = "chunk_ids"
"""The ids of an index's chunks, by position: a list of texts."""

CHUNKS, TERMS, POSTINGS = "chunks", "terms", "postings"
"""The tables of a segment: ids of chunks, terms with the chunks that hold them, and numbers."""

PLAIN: dict[str, Any] = {
    "compression": "none",
    "use_dictionary": False,
    "write_statistics": False,
}
"""How tables are written: their numbers are read as they lie in the file."""

_PACKED = "DELTA_BINARY_PACKED"
"""How whole numbers are written: in a quarter of the bytes, and read as fast."""

MAX_GROUP_ROWS = 1 << 26
"""Rows of one group of a table: of several, a column would be copied when it is read."""


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
                whole = [field.name for field in value.schema if pa.types.is_integer(field.type)]
                options = {**PLAIN, "column_encoding": dict.fromkeys(whole, _PACKED) or None}
                file = self.table_file(name)
                pq.write_table(value, file, row_group_size=MAX_GROUP_ROWS, **options)
            elif isinstance(value, np.ndarray):
                np.save(self.path / f"{name}.npy", value, allow_pickle=False)
            else:
                text = json.dumps(value, ensure_ascii=False, allow_nan=False)
                (self.path / f"{name}.json").write_text(text, encoding="utf-8")

    def take_over(self, name: str, folder: ArrayFolder, other_name: str) -> None:
        """Have a table of another folder, which stays as it is: the same file, or a copy."""
        source, target = folder.table_file(other_name), self.table_file(name)
        try:
            os.link(source, target)
        except FileNotFoundError as error:
            raise unreadable(source, error) from error
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, target)

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


class Entries(NamedTuple):
    """The entries of a term: rows of chunks, ascending, and a number in each."""

    rows: Ints
    numbers: npt.NDArray[Any]


@dataclass(frozen=True)
class Segment:
    """A sparse matrix by columns, of chunks that follow one another in an index.

    Attributes:
        chunks: a row for each, with its ``chunk_id``, and what else is to be known of it.
        terms: a row for each column: ``term``, ``document_frequency``, which is the number of its
            entries, and what else is to be known of it.
        entries: of all columns, one after the other: rows of chunks, ascending within a column, and
            a weight as float32, or a count of the smallest type that holds all.
    """

    chunks: pa.Table
    terms: pa.Table
    entries: Entries

    @property
    def holding(self) -> Longs:
        """Number of chunks with an entry in each column, int64, shape (columns,)."""
        holding: Longs = numbers_of(self.terms, "document_frequency")
        return holding

    @cached_property
    def starts(self) -> Longs:
        """The first entry of each column, and the end of the last."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.holding)])

    def column(self, number: int) -> Entries:
        """Return the entries of one column."""
        part = slice(self.starts[number], self.starts[number + 1])
        return Entries(self.entries.rows[part], self.entries.numbers[part])

    def tables(self) -> dict[str, pa.Table]:
        """Return what is written, by name."""
        numbers = np.repeat(np.arange(self.terms.num_rows, dtype=np.int32), self.holding)
        rows, weights = self.entries
        postings = table_of(number=numbers, row=rows, weight=weights)
        return {CHUNKS: self.chunks, TERMS: self.terms, POSTINGS: postings}

    @classmethod
    def load(cls, files: ArrayFolder, end: str = "") -> Segment:
        """Open the tables whose names end so."""
        postings = files.table(f"{POSTINGS}{end}", ["row", "weight"])
        chunks, terms = files.table(f"{CHUNKS}{end}"), files.table(f"{TERMS}{end}")
        n_entries = int(numbers_of(terms, "document_frequency").sum())
        if n_entries != postings.num_rows:
            problem = f"{postings.num_rows} rows for {n_entries} of its terms"
            raise unreadable(files.table_file(f"{POSTINGS}{end}"), problem)
        entries = Entries(numbers_of(postings, "row"), numbers_of(postings, "weight"))
        return cls(chunks, terms, entries)


def sums(
    columns: Sequence[Entries], n_chunks: int, factors: Sequence[float] | None = None
) -> Floats:
    """Return the sum of some columns, each times its factor, added in the order of ``columns``.

    Returns:
        float64, shape (n_chunks,); 0 where no column has an entry.
    """
    if not columns:
        return np.zeros(n_chunks)
    values = [column.numbers for column in columns]
    if factors is not None:
        pairs = zip(values, factors, strict=True)
        values = [np.multiply(part, factor, dtype=np.float64) for part, factor in pairs]
    # adds in the order of the entries, so in the order of the columns, in one compiled loop
    rows = np.concatenate([column.rows for column in columns])
    totals = np.bincount(rows, weights=np.concatenate(values), minlength=n_chunks)
    return totals.astype(np.float64, copy=False)
