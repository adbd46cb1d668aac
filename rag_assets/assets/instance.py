"""The Dagster instance that runs are recorded in: the one that `dagster dev` shows.

In the state folder it stores in SQLite with connections that stay open, for a process that drives a
run: Dagster opens a database anew for each statement, and reads its 89 migrations to see whether
one is complete. The databases and their content are exactly its own, so `dagster dev` reads what is
written here, also meanwhile.

A storage of one's own is what Dagster offers in ``dagster.yaml`` (``storage: custom``), and the
classes are the ones that its reference names. But where these open a connection is not part of that
reference. So this is used with the version of Dagster that it was tested with, and with any other
it is Dagster's own storage: slower, and otherwise the same.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from shutil import copyfile
from typing import Any

import dagster as dg
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite import create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from rag_assets.errors import StoreError, UsageError
from rag_assets.package_versions import version
from rag_assets.store.atomic import atomic_file
from rag_assets.store.locks import locked
from rag_assets.store.settings import StoreSettings
from rag_assets.store.sql_paths import plain_name

TESTED_WITH = "1.13.27"
"""Version of Dagster whose databases are opened in this way; see ``tests/assets``."""

INDEX = "index"
"""The event log of all runs; each run has one of its own besides."""

BUSY_SECONDS = 30
"""How long a writer waits for another, as in Dagster."""


class SqliteEventLog(SqliteEventLogStorage):
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
            if shard not in self._initialized_dbs:
                self._create(shard)
                self._initialized_dbs.add(shard)
            engine = self._engine(shard)
            if self._together is not None:
                if shard not in self._together:
                    self._together[shard] = engine.connect()
                yield self._together[shard]
                return
            with engine.connect() as connection, connection.begin():
                yield connection

    def _create(self, shard: str) -> None:
        """Create a database unless it is complete; the one of a run as a copy of an empty one."""
        path = Path(self.path_for_shard(shard))
        empty = Path(self._base_dir).parent / f"empty_run-{TESTED_WITH}.sqlite"
        if shard != INDEX and not path.exists() and empty.exists():
            _copy(empty, path)
        elif not _is_complete(path):
            self._initdb(self._engine(shard))
            if shard != INDEX:
                self._engines.pop(shard).dispose()  # so that the file holds all of it
                _copy(path, empty)

    def has_table(self, table_name: str) -> bool:
        """Return whether the index has a table; one that is there stays."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def _engine(self, shard: str) -> Engine:
        """Return the engine of a database; of those of runs, the one used last stays open."""
        if shard not in self._engines:
            for other in [name for name in self._engines if name != INDEX]:
                self._engines.pop(other).dispose()
            engine = _engine(self.conn_string_for_shard(shard))
            if shard != INDEX:
                event.listen(engine, "connect", _sync_less)
            self._engines[shard] = engine
        return self._engines[shard]

    def dispose(self) -> None:
        """Close all databases."""
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()
        super().dispose()


class SqliteRuns(SqliteRunStorage):
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


class SqliteStorage(DagsterSqliteStorage):
    """The storage of an instance that one process drives; the folders are those of Dagster."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        """Open the storage; it is created when it is not there."""
        history = Path(base_dir) / "history"
        schedules = Path(base_dir) / "schedules"
        self.base_dir = base_dir
        self._inst_data = inst_data
        self._run_storage = (
            SqliteRuns(create_db_conn_string(str(history), "runs"))
            if _is_complete(history / "runs.db", LAST_OF_RUNS)
            else SqliteRuns.from_local(str(history))
        )
        self._event_log_storage = SqliteEventLog(str(history / "runs"))
        self._schedule_storage = (
            SqliteScheduleStorage(create_db_conn_string(str(schedules), "schedules"))
            if _is_complete(schedules / "schedules.db")
            else SqliteScheduleStorage.from_local(str(schedules))
        )
        # Not the parent's own, which opens the databases as Dagster does.
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> SqliteStorage:
        """Return the storage that an instance's configuration asks for."""
        return cls(inst_data=inst_data, **config_value)


def stored_together(instance: dg.DagsterInstance) -> AbstractContextManager[None]:
    """Let an instance store the events of a block at once; on other storage, one by one."""
    log = instance.event_log_storage
    return log.together() if isinstance(log, SqliteEventLog) else nullcontext()


REVISION = "alembic_version"
"""The table with the revision of a database, which Dagster writes when all others are there."""

LAST_OF_RUNS = "instance_info"
"""The table that Dagster creates last where it lists runs; it may be empty."""


def _is_complete(path: Path, last: str = REVISION) -> bool:
    """Return whether a database is there with all its tables: a process can be killed before."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as database:
        try:
            database.execute(f"SELECT * FROM {last}")
            return database.execute(f"SELECT * FROM {REVISION}").fetchone() is not None
        except sqlite3.OperationalError:
            return False


def _copy(database: Path, to: Path) -> None:
    """Copy a database that no process has open."""
    with atomic_file(to, durable=False) as temporary:
        copyfile(database, temporary)


def _sync_less(connection: sqlite3.Connection, _: object) -> None:
    """Let a power failure take the last events of a run's own log; the index of assets has them."""
    connection.execute("PRAGMA synchronous=NORMAL")


def _engine(connection: str) -> Engine:
    return create_engine(connection, connect_args={"timeout": BUSY_SECONDS})


_LOCK = "opening.lock"


def open_instance(settings: StoreSettings) -> dg.DagsterInstance:
    """Open the instance in force.

    With ``DAGSTER_HOME`` set it is that one. Otherwise it lies in the state folder, where the
    ``dagster.yaml`` of the repository puts it too; telemetry is off.

    Raises:
        UsageError: ``DAGSTER_HOME`` is no folder with a valid instance.
        StoreError: the state folder cannot be written.
    """
    if settings.has_dagster_home:
        return _of_user()
    try:
        settings.dagster_home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot write {settings.dagster_home}: {error.strerror or error}"
        raise StoreError(problem) from error
    with ExitStack() as stack:
        home = str(stack.enter_context(plain_name(settings.dagster_home)))
        overrides = {
            "storage": _storage(home),
            "telemetry": {"enabled": False},
            # The default manager takes over this process's stdout while a step runs.
            # Dagster documents this one, and under no other name.
            "compute_logs": {
                "module": "dagster._core.storage.noop_compute_log_manager",
                "class": "NoOpComputeLogManager",
            },
        }
        # Of two processes that find no database both would create it, and one of them fail.
        with locked(settings.dagster_home / _LOCK):
            instance = dg.DagsterInstance.local_temp(home, overrides)
        weakref.finalize(instance, stack.pop_all().close)
    return instance


def _storage(home: str) -> dict[str, Any]:
    """Return the configuration of the storage: kept open where that was tested."""
    config = {"base_dir": home}
    if version("dagster") != TESTED_WITH:
        return {"sqlite": config}
    return {"custom": {"module": __name__, "class": "SqliteStorage", "config": config}}


@contextmanager
def storage_errors(settings: StoreSettings) -> Iterator[None]:
    """Say in one line that the instance's storage fails: a full disk, a server that is not there.

    Raises:
        StoreError: it does.
    """
    try:
        yield
    except Exception as error:
        # Dagster's storage on Postgres raises an exception of its own from that of the driver.
        cause = error if isinstance(error, DBAPIError | sqlite3.Error) else error.__cause__
        if not isinstance(cause, DBAPIError | sqlite3.Error):
            raise
        problem = " ".join(str(cause.orig if isinstance(cause, DBAPIError) else cause).split())
        raise StoreError(f"cannot write {settings.dagster_home}: {problem}") from error


def _of_user() -> dg.DagsterInstance:
    try:
        return dg.DagsterInstance.get()
    except dg.DagsterError as error:
        raise UsageError(f"DAGSTER_HOME: {' '.join(str(error).split())}") from error
