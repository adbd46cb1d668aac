"""The executor of Dask for a scheduler that runs; named by ``RAG_ASSETS_EXECUTOR``."""

from __future__ import annotations

from dagster_dask import dask_executor

ADDRESS = "DASK_SCHEDULER_ADDRESS"

on_cluster = dask_executor.configured({"cluster": {"existing": {"address": {"env": ADDRESS}}}})
