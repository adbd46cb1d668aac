"""Dagster's SQLite storage, faster for one process that starts many short runs.

The databases and their content are exactly Dagster's own, so `dagster dev` reads what is written
here, also meanwhile. Dagster opens a database anew for each statement, and creates the schema of a
run's database step by step; with twenty runs of a few events each that was most of the time of an
evaluation. Here connections are kept open, and a new database is a copy of an empty one.

This builds on internals of Dagster, whose version is pinned; ``tests/assets/`` holds both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
)
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event

MOST_SHARDS = 4
"""So many databases of runs stay open; an evaluation writes to one after the other."""


class KeptEventLog(SqliteEventLogStorage):
    """The event log: one database a run, and the index of all assets."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        """Open the index; it is created when it is not there."""
        self._engines: dict[str, Engine] = {}
        self._empty = sqlite3.connect(":memory:", check_same_thread=False)
        self._has_empty = False
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._engine(shard)
            if shard not in self._initialized_dbs:
                self._create(shard, engine)
                self._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                yield connection

    def _engine(self, shard: str) -> Engine:
        """Return the engine of a database; the one used least recently is closed for it."""
        engine = self._engines.pop(shard, None) or self._open(shard)
        self._engines[shard] = engine
        runs = [name for name in self._engines if name != INDEX_SHARD_NAME]
        if len(runs) > MOST_SHARDS:
            self._engines.pop(runs[0]).dispose()
        return engine

    def _open(self, shard: str) -> Engine:
        engine = _engine(self.conn_string_for_shard(shard))
        if shard != INDEX_SHARD_NAME:
            event.listen(engine, "connect", _sync_less)
        return engine

    def _create(self, shard: str, engine: Engine) -> None:
        path = self.path_for_shard(shard)
        with closing(sqlite3.connect(path, timeout=SQLITE_BUSY_TIMEOUT_SECONDS)) as database:
            is_new = not database.execute("SELECT 1 FROM sqlite_master").fetchone()
            if is_new and self._has_empty:
                self._empty.backup(database)
                database.execute("PRAGMA journal_mode=WAL")
                return
        self._initdb(engine)
        if is_new:
            with closing(sqlite3.connect(path)) as database:
                database.backup(self._empty)
            self._has_empty = True

    def dispose(self) -> None:
        """Close all databases."""
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()
        self._empty.close()
        super().dispose()


class KeptRuns(SqliteRunStorage):
    """The list of runs."""

    _engine: Engine | None = None

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Yield a connection within a transaction."""
        if self._engine is None:
            self._engine = _engine(self._conn_string)
        with self._engine.connect() as connection, connection.begin():
            yield connection

    def dispose(self) -> None:
        """Close the database."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        super().dispose()


class KeptStorage(DagsterSqliteStorage):
    """The storage of an instance that one process drives."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        """Open the storage; it is created when it is not there."""
        super().__init__(base_dir, inst_data)
        self._run_storage = KeptRuns.from_local(_runs_directory(base_dir))
        self._event_log_storage = KeptEventLog(_event_logs_directory(base_dir))

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> KeptStorage:
        """Return the storage that an instance's configuration asks for."""
        return cls.from_local(inst_data=inst_data, **config_value)


def _sync_less(connection: sqlite3.Connection, _: object) -> None:
    """Let a power failure take the last events of a run's own log; the index of assets has them."""
    connection.execute("PRAGMA synchronous=NORMAL")


def _engine(connection: str) -> Engine:
    return create_engine(connection, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
