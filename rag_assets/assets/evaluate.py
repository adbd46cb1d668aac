"""The main job: bring an experiment up to date, through Dagster, and make it the current state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rag_assets.assets.reported import Reported
from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.pipeline.evaluations import Evaluation, read_current, record
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.registry import register
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.store.artifacts import ArtifactKey


@dataclass(frozen=True)
class Work:
    """What an evaluation did: the snapshot, and how many partitions were computed and reused."""

    evaluation: Evaluation
    computed: int
    reused: int
    seconds: float


def evaluate(pipeline: Pipeline, selection: Selection, *, trigger: str = "command line") -> Work:
    """Compute what is missing, report what Dagster does not know, write the snapshot.

    When nothing is to be done no Dagster run is started (and Dagster is not even imported).

    Raises:
        RagAssetsError: invalid data, a missing model, or a store that cannot be written.
    """
    started = datetime.now(UTC)
    register(pipeline.experiment, pipeline.settings)
    wanted = selection.keys(pipeline.experiment)
    runs, computed = _run_stages(pipeline, wanted, trigger)
    previous = _previous(pipeline)
    evaluation = record(
        pipeline, started=started, trigger=trigger, computed=computed, dagster_runs=runs
    )
    unchanged = previous is not None and previous.content == evaluation.content
    if not unchanged or not pipeline.settings.warehouse.exists():
        rebuild(pipeline.settings)
    total = sum(len(keys) for keys in wanted.values())
    seconds = (datetime.now(UTC) - started).total_seconds()
    return Work(evaluation, computed, total - computed, seconds)


def _run_stages(
    pipeline: Pipeline, wanted: dict[str, list[ArtifactKey]], trigger: str
) -> tuple[tuple[str, ...], int]:
    """Run each stage that has something to do; return the run ids and how much was computed."""
    reported = Reported(pipeline)
    runs: list[str] = []
    computed = 0
    starter = None
    for asset, keys in wanted.items():
        missing = sum(pipeline.current(key) is None for key in keys)
        stale = [key for key in keys if not reported.is_current(key)]
        if not stale:
            continue
        if starter is None:
            starter = _starter(pipeline, trigger)
        runs.append(starter.run(asset, stale))
        computed += missing
        reported = Reported(pipeline)
    return tuple(runs), computed


def _starter(pipeline: Pipeline, trigger: str):  # noqa: ANN202 (Dagster is imported here only)
    from rag_assets.assets.instance import open_instance
    from rag_assets.assets.runner import StageRunner

    return StageRunner(pipeline, open_instance(pipeline.settings), trigger)


def _previous(pipeline: Pipeline) -> Evaluation | None:
    try:
        return read_current(pipeline.store.root)
    except (NotEvaluated, StoreError):
        return None
