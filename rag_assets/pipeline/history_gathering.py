"""Gathers the files of a history, since a thousand small files are slow to read.

Ten files of about the same number of rows become one, and ten of those again one: n evaluations
lie in at most ``9 * (1 + log10 n)`` files, and a row is written again ``log10 n`` times in all. A
file of :data:`LARGEST` rows is left as it is, so that gathering needs a bounded amount of memory.

Beside each file lies its SHA-256. It goes before its file and comes after it, so that no process
that is killed leaves one that does not fit; a file without one is believed.

Rows move and none changes. The new file is there before those go that it replaces: a process that
is killed between leaves rows that stand in two files, and readers take each once. What was left is
seen by the next gathering, which drops the rows that another file has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.store.atomic import TEMPORARY_MARK, atomic_file, remove, write_text
from rag_assets.store.canonical import file_digest
from rag_assets.store.file_stamps import RecentFiles
from rag_assets.store.parquet_files import read_parquet

GATHERED = 10
"""So many files of about the same size become one."""

LARGEST = 10_000
"""A file of so many rows is not gathered any more."""

ROWS_AT_ONCE = 1000
"""Rows of a row group: who wants the newest evaluations does not read the others of a file."""

_BETWEEN = "--"


_INTACT: RecentFiles[bool] = RecentFiles(lambda _: 1, 1, 4096)
"""Whether files are as they were written, of the last 4,096."""


def history_files(folder: Path) -> list[Path]:
    """Return all files of a history, in the order of their evaluations."""
    if not folder.is_dir():
        return []
    files = folder.glob("*.parquet")
    return sorted(file for file in files if TEMPORARY_MARK not in file.name)


def first_id(path: Path) -> str:
    """Return the id of the oldest evaluation in a file."""
    return path.stem.partition(_BETWEEN)[0]


def last_id(path: Path) -> str:
    """Return the id of the newest evaluation in a file."""
    return path.stem.rpartition(_BETWEEN)[2]


def is_intact(path: Path) -> bool:
    """Return whether a file is as it was written; one without a checksum is believed.

    Raises:
        OSError: it cannot be read.
    """
    return _INTACT.get(path, _has_its_checksum)


def remove_file(path: Path) -> None:
    """Remove a file of the history with its checksum; one that is gone is no failure.

    Raises:
        StoreError: it cannot be removed.
    """
    remove(_checksum(path))
    remove(path)


def _checksum(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _has_its_checksum(path: Path) -> bool:
    try:
        stated = _checksum(path).read_bytes()
    except FileNotFoundError:
        return True
    return stated == file_digest(path).encode()


def is_due(folder: Path) -> bool:
    """Return whether files of single evaluations are to be gathered."""
    return len(_single(history_files(folder))) >= GATHERED


def gather(folder: Path) -> None:
    """Gather what is due; a file that is damaged stays where it is.

    One process at a time may do this; others may read and add files meanwhile.

    Raises:
        StoreError: the store cannot be written.
    """
    while (group := _group(history_files(folder))) and _merge(folder, group):
        pass


def add_rows(folder: Path, rows: pa.Table) -> None:
    """Write new evaluations, in the order of time: one a file, or where they are many, as gathered.

    Raises:
        StoreError: the store cannot be written.
    """
    step = 1 if rows.num_rows < GATHERED else LARGEST
    for begin in range(0, rows.num_rows, step):
        _write(folder, rows.slice(begin, step))


def _write(folder: Path, rows: pa.Table) -> None:
    path = _file_of(folder, rows)
    remove(_checksum(path))
    with atomic_file(path) as temporary:
        whole = rows.combine_chunks()
        pq.write_table(whole, temporary, compression="zstd", row_group_size=ROWS_AT_ONCE)
        digest = file_digest(temporary)
    write_text(_checksum(path), digest)


def _file_of(folder: Path, rows: pa.Table) -> Path:
    """Return the file of some evaluations, which are in the order of time."""
    ids = rows.column("evaluation_id")
    first, last = ids[0].as_py(), ids[-1].as_py()
    return folder / (f"{first}.parquet" if len(ids) == 1 else f"{first}{_BETWEEN}{last}.parquet")


def once(rows: pa.Table) -> pa.Table:
    """Return each evaluation once, in the order of time."""
    ids = rows.column("evaluation_id").to_pylist()
    if all(one < other for one, other in pairwise(ids)):
        return rows
    if len(set(ids)) == len(ids):
        return rows.sort_by("evaluation_id")
    first: dict[str, int] = {}
    for number, evaluation_id in enumerate(ids):
        first.setdefault(evaluation_id, number)
    return rows.take(pa.array([first[name] for name in sorted(first)], pa.int64()))


def _group(paths: Sequence[Path]) -> list[Path]:
    """Return files that are to become one; none when nothing is due."""
    single = _single(paths)
    if len(single) >= GATHERED:
        return single[:LARGEST]
    levels: dict[int, list[Path]] = {}
    sizes = {path: _n_rows(path) for path in paths if path not in single}
    for path, n_rows in sizes.items():
        if 0 < n_rows < LARGEST:
            levels.setdefault(_level(n_rows), []).append(path)
    for _, group in sorted(levels.items()):
        if len(group) >= GATHERED:
            return _at_most(LARGEST, group, sizes)
    return []


def _merge(folder: Path, group: Sequence[Path]) -> bool:
    """Put files into one; return whether there are fewer files now."""
    parts = {path: table for path in group if (table := _table_of(path)) is not None}
    if len(parts) < 2:
        return False
    rows = once(pa.concat_tables(parts.values(), promote_options="permissive"))
    ids = rows.column("evaluation_id")
    known = _known(folder, ids[0].as_py(), ids[-1].as_py(), parts)
    new = rows.filter(pc.invert(pc.is_in(ids, known))) if len(known) else rows
    target = _file_of(folder, new) if new.num_rows else None
    if target is not None:
        if target.exists() and target not in parts:
            return False  # a damaged file, which may be wanted yet
        _write(folder, new)
    for path in parts:
        if path != target:
            remove_file(path)
    return True


def _known(folder: Path, first: str, last: str, parts: Iterable[Path]) -> pa.Array:
    """Return the ids that other gathered files have between two of them."""
    own = set(parts)
    others = [p for p in history_files(folder) if _BETWEEN in p.stem and p not in own]
    ids: list[str] = []
    for path in others:
        if first_id(path) <= last and first <= last_id(path):
            table = _table_of(path)
            ids += [] if table is None else table.column("evaluation_id").to_pylist()
    return pa.array(ids, pa.string())


def _single(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if _BETWEEN not in path.stem]


def _at_most(n_rows: int, group: Sequence[Path], sizes: dict[Path, int]) -> list[Path]:
    """Return the oldest files of a group that have so many rows together, and two at least."""
    chosen: list[Path] = []
    for path in group:
        if len(chosen) > 1 and sum(map(sizes.__getitem__, chosen)) + sizes[path] > n_rows:
            break
        chosen.append(path)
    return chosen


def _level(n_rows: int) -> int:
    level = 0
    while n_rows >= GATHERED:
        n_rows //= GATHERED
        level += 1
    return level


def _n_rows(path: Path) -> int:
    """Return how many rows a file has; 0 when it cannot be read."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return 0


def _table_of(path: Path) -> pa.Table | None:
    try:
        return read_parquet(path) if is_intact(path) else None
    except (OSError, pa.ArrowException):
        return None  # who reads the history is told
