"""Dagster's runs in a few processes that are kept: importing takes longer than the work.

A step's process opens the instance and so imports this module: it imports little itself.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any, Self

import dagster as dg
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher import LaunchRunContext, RunLauncher
from dagster._serdes import ConfigurableClass, ConfigurableClassData

RUNS_AT_A_TIME = 2


class PoolLauncher(RunLauncher, ConfigurableClass):
    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._inst_data = inst_data

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
        run_processes().submit(_run, *arguments)

    def terminate(self, run_id: str) -> bool:
        raise NotImplementedError

    def dispose(self) -> None:
        run_processes().shutdown()


@cache
def run_processes() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("fork")
    processes = ProcessPoolExecutor(RUNS_AT_A_TIME, mp_context=context)
    processes.submit(os.getpid).result()
    return processes


def _run(ref: InstanceRef, run_id: str) -> None:
    from dagster._core.execution.api import execute_run
    from dagster._utils.hosted_user_process import recon_job_from_origin

    with dg.DagsterInstance.from_ref(ref) as instance:
        run = instance.get_run_by_id(run_id)
        if run is None or run.job_code_origin is None:
            raise LookupError(run_id)
        execute_run(recon_job_from_origin(run.job_code_origin), run, instance)
