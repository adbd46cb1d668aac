"""Bring an experiment up to date, recorded in Dagster, and make it the current state.

This is the driver of the command line and of Python, also inside a notebook, whose process has a
running event loop and no terminal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from rag_assets.assets.evaluation_steps import (
    EvaluationSummary,
    StaleStages,
    begin,
    finish,
    stale_stages,
)
from rag_assets.pipeline.failed_queries import ask_revisions
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.store.atomic import write_text
from rag_assets.store.settings import StoreSettings

if TYPE_CHECKING:
    from dagster import DagsterInstance


@contextmanager
def as_in_a_script() -> Iterator[None]:
    """Let synchronous work do what it does in a script.

    At the end of a run Dagster starts an event loop, and where one is running no other may start.
    The running one is set aside, in place of a thread for the work, because an interrupt of the
    notebook's cell must reach the work. tqdm, which libraries of models import, warns where
    ipywidgets are not installed; its bars are not shown.
    """
    import asyncio

    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")
            yield
    finally:
        asyncio._set_running_loop(running)


def evaluate(
    pipeline: Pipeline,
    selection: Selection,
    *,
    trigger: str = "command line",
    instance: DagsterInstance | None = None,
) -> EvaluationSummary:
    """Compute what is missing, report what Dagster does not know, write the snapshot.

    All of it is one Dagster run. When nothing is to be done none is started (and Dagster is not
    even imported).

    Args:
        pipeline: the experiment and its store.
        selection: the cells that are wanted.
        trigger: what started it, for the record.
        instance: where the run is recorded; by default the instance in force.

    Raises:
        RagAssetsError: invalid data, a missing model, or a store that cannot be written.
    """
    started = datetime.now(UTC)
    with pipeline.evaluating():
        _write_dagster_yaml(pipeline.settings, instance)
        ask_revisions(pipeline, selection.retrievers)
        wanted = begin(pipeline, selection)
        stages = stale_stages(pipeline, wanted)
        first = next(stages, None)
        runs: tuple[str, ...] = ()
        if first is not None:
            runs = (_recorded(pipeline, chain([first], stages), trigger, instance),)
        return finish(pipeline, wanted, started=started, trigger=trigger, runs=runs)


def _write_dagster_yaml(settings: StoreSettings, given: DagsterInstance | None) -> None:
    """Let `dagster dev` on the store's own instance send nothing; it stores where we do anyway."""
    file = settings.dagster_home / "dagster.yaml"
    if given is None and not settings.has_dagster_home and not file.exists():
        write_text(file, "telemetry: {enabled: false}\nnux: {enabled: false}\n")


def _recorded(
    pipeline: Pipeline, stages: StaleStages, trigger: str, given: DagsterInstance | None
) -> str:
    """Open Dagster; it is imported here and not before, since most evaluations find no work."""
    from rag_assets.assets.instance import open_instance, storage_errors
    from rag_assets.assets.job import record_run

    if given is not None:
        return record_run(pipeline, stages, given, trigger)
    with storage_errors(pipeline.settings), open_instance(pipeline.settings) as instance:
        return record_run(pipeline, stages, instance, trigger)
