"""Dagster's own backfill of all assets, tick after tick without its pause of 30 seconds.

``COMMAND`` in the working directory of a code location, with ``DAGSTER_HOME``. Several processes
take the runs in turn, forked from this one once it has imported what they need; what runs the steps
is the executor's business.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration

from tests.pool_launcher import PoolLauncher, run_processes

COMMAND = (sys.executable, "-c", "import tests.dagster_backfill as it; it.main()")
"""Followed by assets. Not ``-m``: processes of steps would import the main module once again."""

PATIENCE = 500.0
"""Seconds after which a backfill that has not ended will not."""

_ENDED = (
    BulkActionStatus.COMPLETED_SUCCESS,
    BulkActionStatus.COMPLETED_FAILED,
    BulkActionStatus.FAILED,
)


def materialize(home: Path, folder: Path, assets: Sequence[str]) -> None:
    """Materialize assets of ``rag_assets.definitions`` by a backfill.

    Args:
        home: of the instance.
        folder: the working directory of the code location.
        assets: stages; all of them if none is named.
    """
    overrides = {
        "telemetry": {"enabled": False},
        "run_launcher": {"module": PoolLauncher.__module__, "class": PoolLauncher.__name__},
        "run_coordinator": {
            "module": "dagster._core.run_coordinator",
            "class": "DefaultRunCoordinator",
        },
    }
    code = LoadableTargetOrigin(
        module_name="rag_assets.definitions", working_directory=str(folder), attribute="defs"
    )
    target = InProcessWorkspaceLoadTarget(InProcessCodeLocationOrigin(code))
    ref = InstanceRef.from_dir(str(home), overrides=overrides)
    with (
        dg.DagsterInstance.from_ref(ref) as instance,
        WorkspaceProcessContext(instance, target) as workspace,
    ):
        _backfill(instance, workspace, assets)


def _backfill(
    instance: dg.DagsterInstance, workspace: WorkspaceProcessContext, assets: Sequence[str]
) -> None:
    graph = workspace.create_request_context().asset_graph
    keys = [key for key in graph.materializable_asset_keys if not assets or key.path[-1] in assets]
    backfill = PartitionBackfill.from_asset_partitions(
        backfill_id="all",
        asset_graph=graph,
        partition_names=None,
        asset_selection=keys,
        backfill_timestamp=time.time(),
        tags={},
        dynamic_partitions_store=instance,
        all_partitions=True,
        title=None,
        description=None,
        run_config=None,
    )
    instance.add_backfill(backfill)
    logger = logging.getLogger("tests.backfill")
    deadline = time.monotonic() + PATIENCE
    while (found := instance.get_backfill("all")) and found.status not in _ENDED:
        for error in execute_backfill_iteration(workspace, logger):
            if error is not None:
                raise ChildProcessError(error.to_string())
        if time.monotonic() > deadline:
            raise TimeoutError("the backfill has not ended")
        time.sleep(0.1)
    if found is None or found.status is not BulkActionStatus.COMPLETED_SUCCESS:
        raise ChildProcessError(f"the backfill: {found}")


def main() -> None:
    """Fork the processes of the runs, then materialize what the command line names."""
    import_module("rag_assets.definitions")
    import_module("rag_assets.assets.instance")
    run_processes()
    materialize(Path(os.environ["DAGSTER_HOME"]), Path.cwd(), sys.argv[1:])
