"""The history of an experiment: Parquet files of evaluations that are never changed.

Every evaluation writes one file, ``history/<id>.parquet``. Many small files are slow to read, so
from time to time they are gathered into one, ``history/<first id>--<last id>.parquet``: rows
move, none changes. A row that stands in two files, because a process was killed while it gathered,
is one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.errors import StoreError
from rag_assets.schemas import HISTORY, SCHEMA_VERSION
from rag_assets.store.atomic import TEMPORARY_MARK, atomic_file
from rag_assets.store.locks import locked
from rag_assets.store.parquet_files import read_parquet

FOLDER = "history"

GATHERED = 100
"""So many files of single evaluations become one."""

ATTEMPTS = 3
"""A file that was listed may be gathered before it is read; then the folder is listed again."""

_BETWEEN = "--"


class HistoryFiles:
    """The files of one experiment."""

    def __init__(self, root: Path, locks: Path | None) -> None:
        """Use the experiment's folder ``root`` in the store, and the folder of lock files.

        Without one, files are read and added, and none are gathered.
        """
        self.folder = root / FOLDER
        self._lock = None if locks is None else locks / root.name / "history.lock"

    def add(self, rows: pa.Table) -> None:
        """Add evaluations: a table of :data:`rag_assets.schemas.HISTORY`.

        Raises:
            StoreError: the store cannot be written.
        """
        for number, evaluation_id in enumerate(rows.column("evaluation_id").to_pylist()):
            self._write(f"{evaluation_id}.parquet", rows.slice(number, 1))
        if len(self._single()) >= GATHERED:
            self._gather()

    def paths(self) -> list[Path]:
        """Return all files, in the order of their evaluations."""
        if not self.folder.is_dir():
            return []
        files = self.folder.glob("*.parquet")
        return sorted(file for file in files if TEMPORARY_MARK not in file.name)

    def ids(self) -> set[str]:
        """Return the ids of all evaluations.

        Raises:
            StoreError: a file cannot be read, or is of another version.
        """
        table = self.table(["evaluation_id", "schema_version"])
        others = set(table.column("schema_version").to_pylist()) - {SCHEMA_VERSION}
        if others:
            raise StoreError(
                f"{self.folder}: schema version {others.pop()}, this program writes "
                f"{SCHEMA_VERSION}; move the folder away: `rag-assets history PATH` makes the rows "
                f"of all evaluations whose snapshots are there again"
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
        for attempt in range(ATTEMPTS):
            try:
                return self._read(names)
            except FileNotFoundError as error:
                if attempt == ATTEMPTS - 1:
                    raise StoreError(f"{error.filename}: cannot be read; try again") from error
        raise AssertionError

    def newest_first(self, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield evaluations, the newest first; a file is read when its first row is wanted.

        Args:
            columns: those that are wanted; ``evaluation_id`` must be among them.

        Raises:
            StoreError: a file cannot be read.
            FileNotFoundError: a file was gathered meanwhile.
        """
        names = list(columns)
        for paths in _disjoint(self.paths()):
            yield from reversed(self._read(names, paths).to_pylist())

    def _read(self, names: list[str], paths: list[Path] | None = None) -> pa.Table:
        fields = [HISTORY.arrow().field(name) for name in names]
        parts = [pa.schema(fields).empty_table()]
        for path in self.paths() if paths is None else paths:
            try:
                parts.append(read_parquet(path, names).select(names))
            except FileNotFoundError:
                raise
            except (OSError, pa.ArrowException, KeyError) as error:
                what = " ".join(str(error).split())
                raise StoreError(
                    f"{path}: is not a readable history ({what}); delete it: `rag-assets history` "
                    f"makes the rows of the evaluations that are still there again"
                ) from error
        return _once(pa.concat_tables(parts, promote_options="permissive"))

    def _single(self) -> list[Path]:
        return [path for path in self.paths() if _BETWEEN not in path.stem]

    def _gather(self) -> None:
        """Put the files of single evaluations into one; one that is damaged stays where it is."""
        if self._lock is None:
            return
        with locked(self._lock):
            single = self._single()
            if len(single) < GATHERED:
                return  # another process was first
            gathered = [path for path in self.paths() if _BETWEEN in path.stem]
            known = pa.array({row for path in gathered for row in _ids_in(path)}, pa.string())
            parts = {path: table for path in single if (table := _table_of(path)) is not None}
            if not parts:
                return
            rows = _once(pa.concat_tables(parts.values(), promote_options="permissive"))
            new = rows.filter(pc.invert(pc.is_in(rows["evaluation_id"], known)))
            if new.num_rows:
                ids = new.column("evaluation_id").to_pylist()
                self._write(f"{ids[0]}{_BETWEEN}{ids[-1]}.parquet", new)
            for path in parts:
                path.unlink(missing_ok=True)

    def _write(self, name: str, rows: pa.Table) -> None:
        with atomic_file(self.folder / name) as temporary:
            pq.write_table(rows.combine_chunks(), temporary, compression="zstd")


def _disjoint(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """Yield groups of files, the newest first: all of a group is older than the one before.

    A row that was made again from its snapshot may belong between those of a gathered file.
    """
    group: list[Path] = []
    first = ""
    for path in sorted(paths, key=lambda path: path.stem.split(_BETWEEN)[-1], reverse=True):
        begin, end = path.stem.split(_BETWEEN)[0], path.stem.split(_BETWEEN)[-1]
        if group and end < first:
            yield group
            group = []
        first = min(first, begin) if group else begin
        group.append(path)
    if group:
        yield group


def _table_of(path: Path) -> pa.Table | None:
    try:
        return read_parquet(path)
    except (OSError, pa.ArrowException):
        return None  # who reads the history is told


def _ids_in(path: Path) -> list[str]:
    table = _table_of(path)
    return [] if table is None else table.column("evaluation_id").to_pylist()


def _once(rows: pa.Table) -> pa.Table:
    """Return each evaluation once, in the order of time."""
    first: dict[str, int] = {}
    for number, evaluation_id in enumerate(rows.column("evaluation_id").to_pylist()):
        first.setdefault(evaluation_id, number)
    return rows.take(pa.array([first[name] for name in sorted(first)], pa.int64()))
