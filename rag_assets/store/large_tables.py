"""Tables that need no memory of their own: above some size they are files, of which pages are read.

A row group of Parquet has to be unpacked before it can be read. What a large table holds unpacked
goes into a file without a name, and the table is a map of it: the system reads the pages that are
used, and takes their memory back where it is short. The file is gone with the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, overload

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import StoreError

IN_MEMORY_BYTES = 1 << 25
"""Of a table that stays in memory, at most."""

PORTION_BYTES = 1 << 23
"""Of rows that are written together, about."""

ROWS_AT_ONCE = 1 << 16
"""Rows of a large table that are in memory while it is read and written."""

IDS_AT_ONCE = 1 << 14
"""Ids that are Python's while all are looked through."""


class TableBuilder:
    """A table that is put together from rows of one schema.

    Raises:
        StoreError: there is no room for its file.
    """

    def __init__(self, folder: Path | None = None, in_memory: int | None = None) -> None:
        """Have the file in ``folder``, or where the system has such files if none can be there."""
        can_write = folder is not None and os.access(folder, os.W_OK)
        self._folder = folder if can_write else Path(gettempdir())
        self._most = IN_MEMORY_BYTES if in_memory is None else in_memory
        self._parts: list[pa.Table] = []
        self._n_bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def add(self, rows: pa.Table) -> None:
        """Add rows behind the others."""
        self._parts.append(rows)
        self._n_bytes += rows.nbytes
        if self._n_bytes > (self._most if self._file is None else PORTION_BYTES):
            self._write()

    def table(self) -> pa.Table:
        """Return all rows; some were added."""
        if self._file is None:
            return pa.concat_tables(self._parts)
        if self._parts:
            self._write()
        with self._named():
            self._writer.close()
            self._file.flush()
            # By its number, since it has no name. The map keeps the file when it is closed.
            with self._file, pa.memory_map(f"/proc/self/fd/{self._file.fileno()}") as mapped:
                return pa.ipc.open_file(mapped).read_all()

    def _write(self) -> None:
        with self._named():
            if self._file is None:
                self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - open until it is whole
                self._writer = pa.ipc.new_file(self._file, self._parts[0].schema)
            # What is added together stays together: an array of it is a view.
            self._writer.write_table(pa.concat_tables(self._parts).combine_chunks())
        self._parts, self._n_bytes = [], 0

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say of what fails that it is this file, not the one that is read."""
        try:
            yield
        except OSError as error:
            problem = f"cannot write a large table into {self._folder}: {error.strerror or error}"
            raise StoreError(problem) from error


def read_groups(
    file: pq.ParquetFile,
    folder: Path,
    columns: Sequence[str] | None = None,
    in_memory: int | None = None,
) -> pa.Table:
    """Return a table of an open file, or some of its columns; what else: as of a builder."""
    about = file.metadata
    groups = range(about.num_row_groups)
    n_bytes = sum(about.row_group(number).total_byte_size for number in groups)
    if n_bytes <= (IN_MEMORY_BYTES if in_memory is None else in_memory):
        return file.read(columns=columns)
    builder = TableBuilder(folder, in_memory)
    for number in groups:
        builder.add(file.read_row_group(number, columns=columns))
    return builder.table()


class Ids(Sequence[str]):
    """A column of ids, of which those that are read are made Python's."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        """Have no null among them."""
        self.column = column

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.column)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        """Return an id, or a list of some."""
        if not isinstance(place, slice):
            return str(self.column[place].as_py())
        start, stop, step = place.indices(len(self))
        names: list[str] = self.column.slice(start, max(stop - start, 0)).to_pylist()
        return names[::step]

    def __iter__(self) -> Iterator[str]:
        """Yield all, some thousands of which are in memory."""
        for start in range(0, len(self), IDS_AT_ONCE):
            yield from self[start : start + IDS_AT_ONCE]


def columned(ids: Sequence[str]) -> pa.ChunkedArray:
    """Return ids as a column; those that are one are not copied."""
    return ids.column if isinstance(ids, Ids) else pa.chunked_array([pa.array(ids, pa.string())])
