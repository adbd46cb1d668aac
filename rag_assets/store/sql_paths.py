"""DuckDB over tables in memory; texts, files and folders as DuckDB and SQLAlchemy take them."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


_NOT_PLAIN = re.compile(r"[?%*\[]")
"""What Dagster, SQLAlchemy and DuckDB read as an address or a pattern where they open a path."""


@contextmanager
def plain_name(folder: Path) -> Iterator[Path]:
    """Yield the path of a folder, or of a link to it while the block lasts.

    SQLite names one by where a link leads, so who opens it by the other path waits for the same
    locks.
    """
    if _NOT_PLAIN.search(str(folder)) is None:
        yield folder
        return
    with TemporaryDirectory() as place:
        link = Path(place) / "linked"
        link.symlink_to(folder, target_is_directory=True)
        yield link


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted_files(folder: Path, pattern: str) -> str:
    """Return the files below a folder by a pattern, as a literal."""
    return quoted(f"{_escaped(folder)}/{pattern}")


def parquet_rows(path: Path) -> str:
    """Return what reads the rows of a Parquet file, and no columns from the names of folders."""
    return f"read_parquet({quoted(_escaped(path))}, hive_partitioning = false)"


def _escaped(path: Path) -> str:
    """Return the path of one file: DuckDB takes every path for a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


_DATABASES: dict[int, duckdb.DuckDBPyConnection] = {}
"""Process id -> its database; a forked child must not use that of its parent."""


@contextmanager
def scratch_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection; what is registered in it, and its temporary tables, end with it.

    Tables and views must be temporary: others are seen by all connections.
    """
    import duckdb

    process = os.getpid()
    if not _DATABASES:
        # Else it lives until the interpreter takes its modules apart, and DuckDB complains of that.
        atexit.register(_DATABASES.clear)
    if process not in _DATABASES:
        _DATABASES.setdefault(process, duckdb.connect())  # another thread may have been first
    with _DATABASES[process].cursor() as connection:
        yield connection
