"""Whether ``warehouse.duckdb`` shows what is current: then its time is that of its newest source.

Its sources are the pointers to the current evaluations and the code that lays out the tables. Who
builds it sets its time, so whatever else writes into it, or damages it, gives it another one.
"""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

from rag_assets.pipeline.evaluations import CURRENT
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
    """Return whether the warehouse was built from the evaluations that are the current ones."""
    try:
        built = settings.warehouse.stat().st_mtime_ns
    except FileNotFoundError:
        return False
    return built == newest_source(settings) and not write_ahead_log(settings).exists()


def keep(settings: StoreSettings) -> None:
    """Take a warehouse for current although pointers moved, since they name the same content."""
    time = newest_source(settings)
    os.utime(settings.warehouse, ns=(time, time))


def newest_source(settings: StoreSettings) -> int:
    """Return when the newest source changed, in nanoseconds since 1970.

    The last digits are of where the store lies: views name its files, so a moved one is built anew.
    """
    files = [*settings.store.glob(f"*/{CURRENT}"), *(_PACKAGE / name for name in _LAYOUT)]
    newest = max(file.stat().st_mtime_ns for file in files)
    return newest + crc32(os.path.realpath(settings.store).encode()) % 1000


def write_ahead_log(settings: StoreSettings) -> Path:
    """Return where DuckDB keeps what somebody wrote into the file; it belongs to that file only."""
    return settings.warehouse.with_name(f"{settings.warehouse.name}.wal")
