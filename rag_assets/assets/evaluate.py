"""The main job: bring an experiment up to date, through Dagster, and make it the current state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rag_assets.assets.reported import Reported
from rag_assets.errors import CheckFailed, NotEvaluated, StoreError
from rag_assets.pipeline.checks.blocked import Blocked
from rag_assets.pipeline.evaluations import Evaluation, read_current, record
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.registry import register
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.assets.runner import StageRunner


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
        CheckFailed: a blocking check failed. All that does not read the partition is up to date;
            the last snapshot stays the current one.
    """
    started = datetime.now(UTC)
    register(pipeline.experiment, pipeline.settings)
    wanted = selection.keys(pipeline.experiment)
    runs = _run_stages(pipeline, wanted, trigger)
    computed = pipeline.n_computed
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
) -> tuple[str, ...]:
    """Run each stage that has something to do, in the order of the graph; return the run ids."""
    runs: list[str] = []
    with ExitStack() as stack:
        runner: StageRunner | None = None
        for asset, keys in wanted.items():
            reported, blocked = Reported(pipeline), Blocked(pipeline)
            stale = [
                key for key in keys if not reported.is_current(key) and blocked.can_be_computed(key)
            ]
            if stale:
                runner = runner or stack.enter_context(_runner(pipeline, trigger))
                runs.append(runner.run(asset, stale))
    _refuse_failed(pipeline, wanted)
    return tuple(runs)


def _refuse_failed(pipeline: Pipeline, wanted: Mapping[str, list[ArtifactKey]]) -> None:
    blocked = Blocked(pipeline)
    reasons = [blocked.reason(key) for keys in wanted.values() for key in keys]
    failed = [reason for reason in reasons if reason is not None]
    if failed:
        more = f" (and {len(failed) - 1} more partitions)" if len(failed) > 1 else ""
        raise CheckFailed(f"a blocking check failed: {failed[0]}{more}")


@contextmanager
def _runner(pipeline: Pipeline, trigger: str) -> Iterator[StageRunner]:
    """Open Dagster; it is imported here and not before, since most evaluations find no work."""
    from rag_assets.assets.instance import open_instance
    from rag_assets.assets.runner import StageRunner

    with open_instance(pipeline.settings) as instance:
        yield StageRunner(pipeline, instance, trigger)


def _previous(pipeline: Pipeline) -> Evaluation | None:
    try:
        return read_current(pipeline.store.root)
    except (NotEvaluated, StoreError):
        return None
