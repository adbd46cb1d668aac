"""Dagster's own backfill of all assets, tick after tick without its pause of 30 seconds.

``python -m tests.dagster_backfill`` in the working directory of a code location, with
``DAGSTER_HOME``. Several processes take the runs in turn; what runs the steps is the executor's
business.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Self

import dagster as dg
from dagster._core.execution.api import execute_run
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher import LaunchRunContext, RunLauncher
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._serdes import ConfigurableClass, ConfigurableClassData
from dagster._utils.hosted_user_process import recon_job_from_origin

PATIENCE = 500.0
"""Seconds after which a backfill that has not ended will not."""

RUNS_AT_A_TIME = 2

_ENDED = (
    BulkActionStatus.COMPLETED_SUCCESS,
    BulkActionStatus.COMPLETED_FAILED,
    BulkActionStatus.FAILED,
)


class PoolLauncher(RunLauncher, ConfigurableClass):
    """Several runs at a time, in processes that are kept: importing takes longer than the work."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._inst_data = inst_data
        context = multiprocessing.get_context("forkserver")
        self._processes = ProcessPoolExecutor(RUNS_AT_A_TIME, mp_context=context)

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]
    ) -> Self:
        return cls(inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        arguments = (self._instance.get_ref(), context.dagster_run.run_id)
        self._processes.submit(_run, *arguments)

    def terminate(self, run_id: str) -> bool:
        raise NotImplementedError

    def dispose(self) -> None:
        self._processes.shutdown()


def _run(ref: InstanceRef, run_id: str) -> None:
    with dg.DagsterInstance.from_ref(ref) as instance:
        run = instance.get_run_by_id(run_id)
        if run is None or run.job_code_origin is None:
            raise LookupError(run_id)
        execute_run(recon_job_from_origin(run.job_code_origin), run, instance)


def materialize(home: Path, folder: Path, assets: Sequence[str]) -> None:
    """Materialize assets of ``rag_assets.definitions`` by a backfill.

    Args:
        home: of the instance.
        folder: the working directory of the code location.
        assets: stages; all of them if none is named.
    """
    overrides = {
        "telemetry": {"enabled": False},
        "run_launcher": {"module": "tests.dagster_backfill", "class": PoolLauncher.__name__},
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


if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["rag_assets.definitions"])
    materialize(Path(os.environ["DAGSTER_HOME"]), Path.cwd(), sys.argv[1:])
