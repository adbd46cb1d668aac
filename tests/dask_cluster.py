"""Dagster's backfill beside a Dask cluster: a scheduler and two workers, each a process.

``COMMAND`` is as that of :mod:`tests.dagster_backfill`. The processes are forked once this one has
imported what they need, and share nothing afterwards.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from distributed import Scheduler, Worker

from tests import dagster_backfill
from tests.background import HOST, free_port
from tests.dask_executor import ADDRESS

COMMAND = (sys.executable, "-c", "import tests.dask_cluster as it; it.main()")

N_WORKERS = 2


async def _schedule(port: int) -> None:
    async with Scheduler(host=HOST, port=port, dashboard=False) as scheduler:
        await scheduler.finished()


async def _work(address: str) -> None:
    async with Worker(address, host=HOST, nthreads=1, dashboard=False) as worker:
        await worker.finished()


def _be_scheduler(port: int) -> None:
    asyncio.run(_schedule(port))


def _be_worker(address: str) -> None:
    asyncio.run(_work(address))


@contextmanager
def cluster() -> Iterator[None]:
    """Run the processes, all of which know ``ADDRESS``; they are killed at the end."""
    context = multiprocessing.get_context("fork")
    port = free_port()
    address = os.environ[ADDRESS] = f"tcp://{HOST}:{port}"
    processes = [context.Process(target=_be_scheduler, args=(port,), daemon=True)]
    for _ in range(N_WORKERS):
        processes.append(context.Process(target=_be_worker, args=(address,), daemon=True))
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def main() -> None:
    """Run the backfill that the command line names beside a cluster."""
    import_module("rag_assets.definitions")
    import_module("rag_assets.assets.instance")
    with cluster():
        dagster_backfill.main()
