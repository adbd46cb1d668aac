"""The files of a history: Parquet that never changes, a row for each evaluation.

Every evaluation writes one file, ``history/<id>.<digest>.parquet``. Many small files are slow to
read, so :data:`COMPACTED` of them become one, ``history/<first id>--<last id>.<digest>.parquet``.
The digest is of the bytes of the file, so damage is seen, and the same rows have the same name on
all machines. A row that stands in two files, because a process was killed while it compacted, is
one row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluations import HISTORY_DIR
from rag_assets.schemas import HISTORY, SCHEMA_VERSION
from rag_assets.store.atomic import TEMPORARY_MARK, atomic_file, remove
from rag_assets.store.canonical import file_digest
from rag_assets.store.file_stamps import remembered
from rag_assets.store.locks import locked

Row = dict[str, Any]

COMPACTED = 50
"""So many files of single evaluations become one."""

COLUMNS: list[str] = HISTORY.arrow().names

_TRIES = 20
"""A file that was listed may be compacted before it is read; then the folder is listed again."""

_BETWEEN = "--"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HistoryFiles:
    """The files of one experiment."""

    def __init__(self, root: Path, locks: Path | None) -> None:
        """Use the experiment's folder ``root`` in the store, and the folder of lock files.

        Without one, files are read and added, and none are compacted.
        """
        self.folder = root / HISTORY_DIR
        self._lock = None if locks is None else locks / root.name / "history.lock"

    def add(self, rows: pa.Table) -> None:
        """Add rows of :data:`rag_assets.schemas.HISTORY`, in the order of time."""
        step = 1 if rows.num_rows < COMPACTED else rows.num_rows
        for begin in range(0, rows.num_rows, step):
            self._write(rows.slice(begin, step))
        if self._lock is None or len(self.single()) < COMPACTED:
            return
        with locked(self._lock):
            single = [path for path in self.single() if is_readable(path)]
            for begin in range(0, len(single) - COMPACTED + 1, COMPACTED):
                group = single[begin : begin + COMPACTED]
                self._write(_merged([_read(path, COLUMNS) for path in group], COLUMNS))
                for path in group:
                    remove(path)

    def paths(self) -> list[Path]:
        """Return the files, in the order of their evaluations."""
        files = sorted(self.folder.glob("*.parquet"))
        return [path for path in files if TEMPORARY_MARK not in path.name]

    def single(self) -> list[Path]:
        """Return the files of single evaluations."""
        return [path for path in self.paths() if not is_compacted(path)]

    def ids(self) -> set[str]:
        """Return the ids of all evaluations.

        Raises:
            StoreError: a file cannot be read, or is of another version.
        """
        table = self.table(["evaluation_id", "schema_version"])
        others = {*table["schema_version"].to_pylist()} - {SCHEMA_VERSION}
        if others:
            raise StoreError(
                f"{self.folder}: schema version {others.pop()}, this program "
                f"uses {SCHEMA_VERSION}; move the folder away: `rag-assets history PATH` then "
                "rebuilds the rows of all evaluations with a snapshot"
            )
        return {*table["evaluation_id"].to_pylist()}

    def table(self, columns: Sequence[str] = COLUMNS, since: str = "") -> pa.Table:
        """Return columns of evaluations, each once, the oldest first; ``evaluation_id`` is one.

        A file whose newest evaluation is older than the id ``since`` is not read.
        """
        for _ in range(_TRIES):
            try:
                paths = [path for path in self.paths() if _ids(path)[2] >= since]
                return _merged([_read(path, columns) for path in paths], columns)
            except FileNotFoundError:  # it was compacted meanwhile
                continue
        raise StoreError(f"{self.folder}: cannot be read; try again")

    def _write(self, rows: pa.Table) -> None:
        """Write some evaluations, which are in the order of time, into one file."""
        sink = pa.BufferOutputStream()
        # Without the metadata of the file that they may come from.
        pq.write_table(rows.replace_schema_metadata().combine_chunks(), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        ids = rows.column("evaluation_id")
        name = ids[0].as_py() + (f"{_BETWEEN}{ids[-1].as_py()}" if len(ids) > 1 else "")
        digest = hashlib.sha256(content).hexdigest()[:16]
        with atomic_file(self.folder / f"{name}.{digest}.parquet") as temporary:
            temporary.write_bytes(content)


def is_compacted(path: Path) -> bool:
    """Return whether a file is of several evaluations."""
    return bool(_ids(path)[0])


def _ids(path: Path) -> tuple[str, str, str]:
    """Return the ids of the oldest and the newest evaluation of a file as first and last."""
    return path.name.partition(".")[0].rpartition(_BETWEEN)


def as_rows(table: pa.Table) -> list[Row]:
    """Return the rows of a table as `to_pylist` does, which imports pandas for a time: 0.2 s."""
    columns: list[list[Any]] = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            counts = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
            columns.append([_EPOCH + timedelta(microseconds=n) for n in counts])
        else:
            columns.append(column.to_pylist())
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _read(path: Path, names: Sequence[str]) -> pa.Table:
    """Return the columns that a file has of some: one of before 0.1.0 may lack some.

    Raises:
        StoreError: it cannot be read.
        FileNotFoundError: it is gone.
    """
    try:
        if not _is_intact(path):
            raise OSError("it is damaged")
        with pq.ParquetFile(path) as file:
            there = {*file.schema_arrow.names}
            present = [name for name in names if name in there]
            missing = [name for name in names if name not in present]
            if any(not HISTORY.arrow().field(name).nullable for name in missing):
                raise OSError(f"no column {', '.join(missing)}")
            return file.read(present)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        what = " ".join(str(error).split())
        raise StoreError(
            f"{path}: is not a readable history ({what}); delete it: `rag-assets history PATH` "
            "rebuilds the rows of the evaluations that still exist"
        ) from error


@remembered(4096)
def _is_intact(path: Path) -> bool:
    _, *digest, _ = path.name.split(".")
    return not digest or file_digest(path).startswith(digest[0])


def is_readable(path: Path) -> bool:
    """Return whether a file is whole; so is one that was compacted meanwhile."""
    try:
        _read(path, COLUMNS)
    except StoreError:
        return False
    except FileNotFoundError:  # compacted meanwhile
        return True
    return True


def _merged(parts: list[pa.Table], names: Sequence[str]) -> pa.Table:
    """Return each evaluation once, in the order of time."""
    if not parts or any(part.num_columns < len(names) for part in parts):
        # Only then: an empty table is made of Python lists, for which pyarrow imports pandas.
        parts.append(pa.schema([HISTORY.arrow().field(name) for name in names]).empty_table())
    rows = pa.concat_tables(parts, promote_options="permissive").select(names)
    first: dict[str, int] = {}
    for number, name in enumerate(rows.column("evaluation_id").to_pylist()):
        first.setdefault(name, number)
    order = [first[name] for name in sorted(first)]
    return rows if order == [*range(rows.num_rows)] else rows.take(pa.array(order, pa.int64()))
