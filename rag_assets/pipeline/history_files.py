"""The history of an experiment: Parquet files of evaluations that are never changed.

Every evaluation writes one file, ``history/<id>.parquet``. Many small files are slow to read, so
from time to time they are gathered, see :mod:`rag_assets.pipeline.history_gathering`, into
``history/<first id>--<last id>.parquet``. A row that stands in two files, because a process was
killed while it gathered, is one row.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.pipeline.history_gathering import (
    add_rows,
    first_id,
    gather,
    history_files,
    is_due,
    is_intact,
    last_id,
    once,
    remove_file,
)
from rag_assets.schemas import HISTORY, SCHEMA_VERSION
from rag_assets.store.locks import locked

T = TypeVar("T")

FOLDER = "history"

ATTEMPTS = 3
"""A file that was listed may be gathered before it is read; then the folder is listed again."""


PYTHON_ROWS = 50
"""So many rows become Python objects at once: who looks for one evaluation needs few."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HistoryFiles:
    """The files of one experiment."""

    def __init__(self, root: Path, locks: Path | None) -> None:
        """Use the experiment's folder ``root`` in the store, and the folder of lock files.

        Without one, files are read and added, and none are gathered.
        """
        self.folder = root / FOLDER
        self._lock = None if locks is None else locks / root.name / "history.lock"

    def add(self, rows: pa.Table) -> None:
        """Add evaluations.

        Args:
            rows: a table of :data:`rag_assets.schemas.HISTORY`, in the order of time.

        Raises:
            StoreError: the store cannot be written.
        """
        add_rows(self.folder, rows)
        self.gather()

    def gather(self) -> None:
        """Gather small files, if there are so many that it is worth it.

        Raises:
            StoreError: the store cannot be written.
        """
        if self._lock is not None and is_due(self.folder):
            with locked(self._lock):
                gather(self.folder)

    def check(self, since: str = "") -> None:
        """Check every byte of the files, for readers that open them by themselves.

        Args:
            since: but of those whose evaluations are all older than this id.

        Raises:
            StoreError: one of them is damaged.
            FileNotFoundError: a file was gathered meanwhile.
        """
        for path in self.paths(since):
            with _opened(path):
                pass

    def drop_damaged(self, there: Container[str]) -> list[Path]:
        """Remove files of single evaluations that are damaged and can be made again.

        Args:
            there: ids of the evaluations that have a snapshot.

        Raises:
            StoreError: a file cannot be removed.
        """
        dropped = []
        for path in history_files(self.folder):
            if path.stem in there and not _is_readable(path):
                remove_file(path)
                dropped.append(path)
        return dropped

    def paths(self, since: str = "") -> list[Path]:
        """Return the files, in the order of their evaluations.

        Args:
            since: without those whose evaluations are all older than this id.
        """
        return [path for path in history_files(self.folder) if last_id(path) >= since]

    def ids(self) -> set[str]:
        """Return the ids of all evaluations.

        Raises:
            StoreError: a file cannot be read, or is of another version.
        """
        table = self.table(["evaluation_id", "schema_version"])
        others = set(table.column("schema_version").unique().to_pylist()) - {SCHEMA_VERSION}
        if others:
            raise StoreError(
                f"{self.folder}: schema version {others.pop()}, this program writes "
                f"{SCHEMA_VERSION}; move the folder away: `rag-assets history PATH` makes the rows "
                "of all evaluations with a snapshot again"
            )
        return set(table.column("evaluation_id").to_pylist())

    def table(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return all evaluations, the oldest first.

        Args:
            columns: those that are wanted; ``evaluation_id`` must be among them.

        Raises:
            StoreError: a file cannot be read.
        """
        names = list(columns) if columns is not None else HISTORY.arrow().names
        return self.again(lambda: _read(self.paths(), names))

    def newest(self, columns: Iterable[str], most: int) -> list[dict[str, Any]]:
        """Return so many of the newest evaluations, the oldest of them first.

        Args:
            columns: those that are wanted; ``evaluation_id`` must be among them.
            most: how many.

        Raises:
            StoreError: a file cannot be read.
        """
        names = list(columns)
        return self.again(lambda: list(islice(self.newest_first(names), most)))[::-1]

    def newest_first(self, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield evaluations, the newest first; rows are read when the first of them is wanted.

        Args:
            columns: those that are wanted; ``evaluation_id`` must be among them.

        Raises:
            StoreError: a file cannot be read.
            FileNotFoundError: a file was gathered meanwhile.
        """
        names = list(columns)
        for paths in _disjoint(self.paths()):
            for rows in _backwards(paths, names):
                for end in range(rows.num_rows, 0, -PYTHON_ROWS):
                    begin = max(0, end - PYTHON_ROWS)
                    yield from reversed(as_rows(rows.slice(begin, end - begin)))

    def again(self, read: Callable[[], T]) -> T:
        """Read; once more when a file was gathered between its listing and its reading.

        Where that happens again and again, nobody gathers while it is read.

        Raises:
            StoreError: a file cannot be read.
        """
        for _ in range(ATTEMPTS):
            try:
                return read()
            except FileNotFoundError as error:
                missing = error
        if self._lock is None:
            raise StoreError(f"{self.folder}: cannot be read; try again") from missing
        with locked(self._lock):
            return read()


def as_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as `to_pylist` does, which imports pandas for a time: 0.2 s."""
    rows = {name: _values(table.column(name)) for name in table.column_names}
    return [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    counts = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if n is None else _EPOCH + timedelta(microseconds=n) for n in counts]


def _read(paths: Iterable[Path], names: list[str]) -> pa.Table:
    """Return the rows of files, each once, in the order of time."""
    parts = []
    for path in paths:
        with _opened(path) as file:
            parts.append(file.read(_there(file, names)))
    return once(_together(parts, names))


def _backwards(paths: list[Path], names: list[str]) -> Iterator[pa.Table]:
    """Yield the rows of files, later ones first; in a table they are in the order of time."""
    if len(paths) > 1:
        yield _read(paths, names)
        return
    with _opened(paths[0]) as file:
        for number in reversed(range(file.num_row_groups)):
            yield _together([file.read_row_group(number, _there(file, names))], names)


def _there(file: pq.ParquetFile, names: list[str]) -> list[str]:
    """Return the columns that a file has: one of an older version may lack some, which are null."""
    there = set(file.schema_arrow.names)
    missing = [name for name in names if name not in there]
    if any(not HISTORY.arrow().field(name).nullable for name in missing):
        raise KeyError(f"no column {', '.join(missing)}")
    return [name for name in names if name in there]


def _together(parts: list[pa.Table], names: list[str]) -> pa.Table:
    if not parts or any(part.num_columns < len(names) for part in parts):
        # Only then: an empty table is made of Python lists, for which pyarrow imports pandas.
        parts.append(pa.schema([HISTORY.arrow().field(name) for name in names]).empty_table())
    return pa.concat_tables(parts, promote_options="permissive").select(names)


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file; what is wrong with it is told with what helps."""
    try:
        if not is_intact(path):
            raise OSError("it is damaged")
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError) as error:
        what = " ".join(str(error).split())
        raise StoreError(
            f"{path}: is not a readable history ({what}); delete it: `rag-assets history` "
            f"makes the rows of the evaluations that are still there again"
        ) from error


def _is_readable(path: Path) -> bool:
    try:
        with _opened(path):
            return True
    except StoreError:
        return False
    except FileNotFoundError:
        return True  # gathered meanwhile


def _disjoint(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """Yield groups of files, the newest first: all of a group is older than the one before.

    A row that was made again from its snapshot may belong between those of a gathered file.
    """
    group: list[Path] = []
    first = ""
    for path in sorted(paths, key=last_id, reverse=True):
        if group and last_id(path) < first:
            yield group
            group = []
        first = min(first, first_id(path)) if group else first_id(path)
        group.append(path)
    if group:
        yield group
