"""The Dagster instance that runs are recorded in: the one that `dagster dev` shows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster._core.instance.ref import InstanceRef
from sqlalchemy.exc import DBAPIError

from rag_assets.errors import StoreError, UsageError
from rag_assets.store.settings import StoreSettings


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
    home = str(settings.dagster_home)
    overrides = {
        "storage": {
            "custom": {
                "module": "rag_assets.assets.kept_storage",
                "class": "KeptStorage",
                "config": {"base_dir": home},
            }
        },
        "telemetry": {"enabled": False},
        # The default manager takes over this process's stdout while a step runs.
        "compute_logs": {
            "module": "dagster._core.storage.noop_compute_log_manager",
            "class": "NoOpComputeLogManager",
        },
    }
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(home, overrides=overrides))


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
