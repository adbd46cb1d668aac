"""Small tables that were read lately: an evaluation reads most of its files several times."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

LARGEST, ALL = 1 << 20, 1 << 25
"""Bytes of a table that is kept, and of all of them."""


class _State(NamedTuple):
    size: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _State:
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


class RecentTables:
    """Tables by path, as long as the file is the one that was read; threads may share it."""

    def __init__(self, largest: int = LARGEST, together: int = ALL) -> None:
        """Keep tables of at most ``largest`` bytes, ``together`` in all."""
        self._largest, self._together = largest, together
        self._tables: OrderedDict[Path, tuple[_State, pa.Table]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, path: Path, read: Callable[[Path], pa.Table]) -> pa.Table:
        """Return the table of a file; ``read`` is asked for one that is not known.

        Raises:
            OSError: there is no such file.
        """
        state = _State.of(path)
        with self._lock:
            known = self._tables.get(path)
            if known is not None and known[0] == state:
                self._tables.move_to_end(path)
                return known[1]
        table = read(path)
        if table.nbytes <= self._largest:
            self._keep(path, state, table)
        return table

    def _keep(self, path: Path, state: _State, table: pa.Table) -> None:
        with self._lock:
            self._drop(self._tables.pop(path, None))
            self._tables[path] = state, table
            self._bytes += table.nbytes
            while self._bytes > self._together:
                self._drop(self._tables.popitem(last=False)[1])

    def _drop(self, known: tuple[_State, pa.Table] | None) -> None:
        if known is not None:
            self._bytes -= known[1].nbytes
