"""Dagster's SQLite storage, faster for a process that opens it for one evaluation.

The databases and their content are exactly Dagster's own, so `dagster dev` reads what is written
here, also meanwhile. Dagster opens a database anew for each statement, and builds the schema of a
new one step by step. Here connections are kept open, and a new database is a copy of an empty one
where this process has seen one.

This builds on internals of Dagster, whose version is pinned; ``tests/assets/`` holds both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import (
    DagsterSqliteStorage,
    _event_logs_directory,
    _runs_directory,
    _schedule_directory,
)
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event

from rag_assets.store.atomic import created
from rag_assets.store.locks import locked

_EMPTY: dict[str, bytes] = {}
"""Database -> what it holds when it is new, of those that this process created."""

_ROWS = {"runs": "runs", "schedules": "jobs", INDEX_SHARD_NAME: "event_logs", "run": "event_logs"}
"""Database -> the table that is not empty once it is used."""

_CURRENT: set[Path] = set()
"""Databases whose schema this process has seen to be that of the installed Dagster."""

_LOCK = "opening.lock"


class KeptEventLog(SqliteEventLogStorage):
    """The event log: one database a run, and the index of all assets."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        """Open the index; it is created when it is not there."""
        self._engines: dict[str, Engine] = {}
        self._tables: set[str] = set()
        self._together: dict[str, Connection] | None = None
        super().__init__(base_dir, inst_data)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store all events of a block at its end, in one transaction a database, or none of them.

        What is read in the block from these databases sees them already.
        """
        self._together = {}
        try:
            yield
            for connection in self._together.values():
                connection.commit()
        finally:
            for connection in self._together.values():
                connection.close()
            self._together = None

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            engine = self._engine(shard)
            if shard not in self._initialized_dbs:
                self._create(shard, engine)
                self._initialized_dbs.add(shard)
            if self._together is not None:
                if shard not in self._together:
                    self._together[shard] = engine.connect()
                yield self._together[shard]
                return
            with engine.connect() as connection, connection.begin():
                yield connection

    def has_table(self, table_name: str) -> bool:
        """Return whether the index has a table; one that is there stays."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def _engine(self, shard: str) -> Engine:
        """Return the engine of a database; of those of runs, the one used last stays open."""
        if shard not in self._engines:
            for other in [name for name in self._engines if name != INDEX_SHARD_NAME]:
                self._engines.pop(other).dispose()
            engine = _engine(self.conn_string_for_shard(shard))
            if shard != INDEX_SHARD_NAME:
                event.listen(engine, "connect", _sync_less)
            self._engines[shard] = engine
        return self._engines[shard]

    def _create(self, shard: str, engine: Engine) -> None:
        kind = INDEX_SHARD_NAME if shard == INDEX_SHARD_NAME else "run"
        with _checked(kind, Path(self.path_for_shard(shard))) as is_current:
            if not is_current:
                self._initdb(engine)

    def dispose(self) -> None:
        """Close all databases."""
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()
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
        """Open the storage; it is created when it is not there.

        Dagster lets two processes that find no database create it both, and one of them fail.
        """
        self.base_dir = base_dir
        self._inst_data = inst_data
        runs, events, schedules = (
            of(base_dir) for of in (_runs_directory, _event_logs_directory, _schedule_directory)
        )
        with locked(Path(base_dir) / _LOCK):
            with _checked("runs", Path(runs) / "runs.db") as is_current:
                location = create_db_conn_string(runs, "runs")
                self._run_storage = KeptRuns(location) if is_current else KeptRuns.from_local(runs)
            # What a killed process left of an index is completed when it is first connected to.
            with _created(INDEX_SHARD_NAME, Path(events) / f"{INDEX_SHARD_NAME}.db"):
                self._event_log_storage = KeptEventLog(events)
            with _checked("schedules", Path(schedules) / "schedules.db") as is_current:
                location = create_db_conn_string(schedules, "schedules")
                self._schedule_storage = (
                    SqliteScheduleStorage(location)
                    if is_current
                    else SqliteScheduleStorage.from_local(schedules)
                )
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> KeptStorage:
        """Return the storage that an instance's configuration asks for."""
        return cls.from_local(inst_data=inst_data, **config_value)


def stored_together(instance: dg.DagsterInstance) -> AbstractContextManager[None]:
    """Let an instance store the events of a block at once; on other storage, one by one."""
    log = instance.event_log_storage
    return log.together() if isinstance(log, KeptEventLog) else nullcontext()


@contextmanager
def _checked(kind: str, path: Path) -> Iterator[bool]:
    """Yield whether a database has Dagster's present schema; if not, the block sees to it."""
    with _created(kind, path):
        yield path in _CURRENT and path.exists()
    _CURRENT.add(path)


@contextmanager
def _created(kind: str, path: Path) -> Iterator[None]:
    """Let a block create a database; it is a copy of an empty one where this process has seen one.

    Nothing is said of the schema of a database that was there before. Another process may create it
    at the same time, a run's own one for instance: what that one has written stays.
    """
    is_new = not path.exists()
    if is_new and kind in _EMPTY and created(path, _EMPTY[kind]):
        _CURRENT.add(path)
    yield
    if is_new and kind not in _EMPTY:
        with closing(sqlite3.connect(path)) as database:
            if database.execute(f"SELECT 1 FROM {_ROWS[kind]} LIMIT 1").fetchone() is None:
                _EMPTY[kind] = database.serialize()


def _sync_less(connection: sqlite3.Connection, _: object) -> None:
    """Let a power failure take the last events of a run's own log; the index of assets has them."""
    connection.execute("PRAGMA synchronous=NORMAL")


def _engine(connection: str) -> Engine:
    return create_engine(connection, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
