"""DuckDB over tables in memory: one database a process, since to open one costs 15 ms."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


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
