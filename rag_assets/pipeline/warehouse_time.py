"""Whether ``warehouse.duckdb`` shows what is current, and holds what was written: its time says so.

Who builds it sets its time by its sources (the pointers to the current evaluations and the code
that lays out the tables) and by its content. If it is damaged, or a source changes, they differ.
"""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

from rag_assets.pipeline.evaluations import CURRENT
from rag_assets.store.canonical import file_digest
from rag_assets.store.settings import StoreSettings

_PACKAGE = Path(__file__).parents[1]

_LAYOUT = (
    "pipeline/warehouse.py",
    "pipeline/history.py",
    "pipeline/stages.py",
    "schemas.py",
    "store/sql_paths.py",
)
"""The modules that say which tables there are; imported only when the warehouse is built."""


def is_current(settings: StoreSettings) -> bool:
    """Return whether the warehouse was built from the current evaluations, and is undamaged."""
    try:
        built = settings.warehouse.stat().st_mtime_ns
        expected = time_of(settings, settings.warehouse, newest_source(settings))
    except OSError:
        return False
    return built == expected and not write_ahead_log(settings).exists()


def keep(settings: StoreSettings) -> None:
    """Take a warehouse for current although pointers moved, since they name the same content."""
    time = time_of(settings, settings.warehouse, newest_source(settings))
    os.utime(settings.warehouse, ns=(time, time))


def newest_source(settings: StoreSettings) -> int:
    """Return when the newest source changed, in nanoseconds since 1970."""
    files = [*settings.store.glob(f"*/{CURRENT}"), *(_PACKAGE / name for name in _LAYOUT)]
    return max(file.stat().st_mtime_ns for file in files)


def time_of(settings: StoreSettings, warehouse: Path, newest: int) -> int:
    """Return the time of a warehouse: up to a millisecond after its newest source, by content."""
    # And by where the store lies: views name its files, so a moved one is built anew.
    content = f"{file_digest(warehouse)} {os.path.realpath(settings.store)}"
    return newest + crc32(content.encode()) % 1_000_000


def write_ahead_log(settings: StoreSettings) -> Path:
    """Return where DuckDB keeps what somebody wrote into the file; it belongs to that file only."""
    return settings.warehouse.with_name(f"{settings.warehouse.name}.wal")
