"""The Dagster instance that runs are recorded in: the one that `dagster dev` shows."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import dagster as dg
from sqlalchemy.exc import DBAPIError

from rag_assets.assets import sqlite_storage
from rag_assets.errors import StoreError, UsageError
from rag_assets.package_versions import version
from rag_assets.store.locks import locked
from rag_assets.store.plain_names import plain_name
from rag_assets.store.settings import StoreSettings

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
    if version("dagster") != sqlite_storage.TESTED_WITH:
        return {"sqlite": config}
    return {
        "custom": {"module": sqlite_storage.__name__, "class": "SqliteStorage", "config": config}
    }


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
