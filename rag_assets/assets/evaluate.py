"""The main job: bring an experiment up to date, recorded in Dagster, and make it the current state.

This is the driver of the command line and of Python.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from rag_assets.assets.work import StaleStages, Work, begin, finish, stale_stages
from rag_assets.pipeline.asked_revisions import ask_revisions
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection

if TYPE_CHECKING:
    from dagster import DagsterInstance


def evaluate(
    pipeline: Pipeline,
    selection: Selection,
    *,
    trigger: str = "command line",
    instance: DagsterInstance | None = None,
) -> Work:
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
        CheckFailed: a blocking check failed. All that does not read the partition is up to date;
            the last snapshot stays the current one.
    """
    started = datetime.now(UTC)
    with pipeline.evaluating():
        ask_revisions(pipeline, selection.retrievers)
        wanted = begin(pipeline, selection)
        stages = stale_stages(pipeline, wanted)
        first = next(stages, None)
        runs: tuple[str, ...] = ()
        if first is not None:
            runs = (_recorded(pipeline, chain([first], stages), trigger, instance),)
        return finish(pipeline, wanted, started=started, trigger=trigger, runs=runs)


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
