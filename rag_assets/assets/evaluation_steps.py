"""What an evaluation does, whoever starts it: `begin`, the stages of `stale_stages`, `finish`.

The command line does so in its own process (`evaluate.py`), a run that Dagster started in its op
(`job.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from rag_assets.assets.reported_versions import ReportedVersions, Upstream
from rag_assets.errors import StoreError
from rag_assets.pipeline import warehouse_time
from rag_assets.pipeline.evaluation_names import register
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.evaluations import CURRENT, FOLDER, Evaluation, pointed, read_evaluation
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.store.artifacts import ArtifactKey

Wanted = Mapping[str, list[ArtifactKey]]
"""Asset -> its partitions that are to be up to date, in the order of the graph."""

StaleStages = Iterator[tuple[str, list[ArtifactKey]]]
"""Assets with their partitions that are to be computed or reported."""


@dataclass(frozen=True)
class EvaluationSummary:
    """What an evaluation did: the snapshot, and how many partitions were computed and reused."""

    evaluation: Evaluation
    computed: int
    reused: int
    seconds: float


def begin(pipeline: Pipeline, selection: Selection) -> Wanted:
    """Register the experiment and return the partitions that are wanted."""
    register(pipeline.experiment, pipeline.settings)
    return required_partitions(pipeline.experiment, selection)


def stale_stages(
    pipeline: Pipeline, wanted: Wanted, upstream: Upstream | None = None, always: str = ""
) -> StaleStages:
    """Yield each asset with its partitions that are to be computed or reported.

    What is stale in one stage depends on what came out of those before it, so a stage must be up
    to date before the next is asked for. ``upstream`` are the versions of assets outside of the
    experiment, where known; ``always`` is an asset that is reported anyway.
    """
    for asset, keys in wanted.items():
        reported = ReportedVersions(pipeline, upstream)
        stale = [key for key in keys if asset == always or not reported.is_current(key)]
        if stale:
            yield asset, stale


def finish(
    pipeline: Pipeline, wanted: Wanted, *, started: datetime, trigger: str, runs: tuple[str, ...]
) -> EvaluationSummary:
    """Write the snapshot of what is current now, and bring the warehouse up to date.

    Args:
        pipeline: of the evaluation.
        wanted: what ``begin`` returned.
        started: when it began.
        trigger: what started it.
        runs: ids of the Dagster runs that recorded it.

    Raises:
        StoreError: the store cannot be written.
    """
    pipeline.at_work = "recording the evaluation"
    computed = pipeline.n_computed
    before = _content_of_warehouse(pipeline)
    evaluation = record(
        pipeline, started=started, trigger=trigger, computed=computed, dagster_runs=runs
    )
    is_same = computed == 0 and before == evaluation.content
    if is_same and pointed(pipeline.root / CURRENT) == evaluation.evaluation_id:
        warehouse_time.keep(pipeline.settings)
    else:
        from rag_assets.pipeline.warehouse import rebuild  # with DuckDB, where it is needed

        rebuild(pipeline.settings)
    artifacts = [pipeline.current(key) for keys in wanted.values() for key in keys]
    # Of partitions that are equal there is one artifact, which counts once.
    total = len({(one.manifest.asset, one.manifest.fingerprint) for one in artifacts if one})
    seconds = (datetime.now(UTC) - started).total_seconds()
    return EvaluationSummary(evaluation, computed, total - computed, seconds)


def _content_of_warehouse(pipeline: Pipeline) -> str | None:
    """Return the content of the evaluation that the warehouse shows; None: it is not current."""
    if not warehouse_time.is_current(pipeline.settings):
        return None
    try:
        current = pointed(pipeline.root / CURRENT)
        return read_evaluation(pipeline.root / FOLDER / f"{current}.json").content
    except StoreError:
        return None
