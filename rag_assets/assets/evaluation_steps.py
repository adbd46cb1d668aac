"""What an evaluation does, whoever starts it: `begin`, the stages of `stale_stages`, `finish`.

The command line does so in its own process (`evaluate.py`), a run that Dagster started in its op
(`job.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rag_assets.assets.reported_versions import ReportedVersions, Upstream
from rag_assets.checks.check import FailedChecks
from rag_assets.errors import CheckFailed, StoreError
from rag_assets.pipeline import warehouse_time
from rag_assets.pipeline.evaluation_names import register
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.evaluations import (
    CURRENT,
    FOLDER,
    Evaluation,
    pointed,
    read_evaluation,
)
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection, groups_by_cost
from rag_assets.pipeline.stages import partitions_of_rows, required_partitions
from rag_assets.pipeline.warehouse import rebuild
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
    pipeline: Pipeline, wanted: Wanted, upstream: Upstream | None = None
) -> StaleStages:
    """Yield each asset with its partitions that are to be computed or reported.

    What is stale in one stage depends on what came out of those before it, so a stage must be up
    to date before the next is asked for. What reads a partition that failed a blocking check is
    left out. ``upstream`` are the versions of assets outside of the experiment, where known.
    """
    for asset, keys in wanted.items():
        reported, failed_checks = ReportedVersions(pipeline, upstream), FailedChecks(pipeline)
        stale = [
            key
            for key in keys
            if not reported.is_current(key) and failed_checks.can_be_computed(key)
        ]
        if stale:
            yield asset, stale


def cheapest_first(
    pipeline: Pipeline,
    wanted: Wanted,
    selection: Selection,
    ready: Callable[[Sequence[str]], None],
) -> StaleStages:
    """Yield the same as :func:`stale_stages`, so that cheap retrievers are done before others.

    Args:
        pipeline: of the evaluation.
        wanted: what ``begin`` returned.
        selection: whose retrievers they are.
        ready: is called with the retrievers whose means, or runs, were computed, while dearer ones
            are still to come.
    """
    for names in groups_by_cost(pipeline.experiment, selection.retrievers)[:-1]:
        rows = partitions_of_rows(pipeline.experiment, names, selection.top_k)
        was_stale = False
        for stage in stale_stages(pipeline, rows):
            was_stale = True
            yield stage
        if was_stale:
            ready(names)
    yield from stale_stages(pipeline, wanted)


def finish(
    pipeline: Pipeline,
    wanted: Wanted,
    *,
    started: datetime,
    trigger: str,
    runs: tuple[str, ...],
) -> EvaluationSummary:
    """Write the snapshot of what is current now, and bring the warehouse up to date.

    Args:
        pipeline: of the evaluation.
        wanted: what ``begin`` returned.
        started: when it began.
        trigger: what started it.
        runs: ids of the Dagster runs that recorded it.

    Raises:
        CheckFailed: a partition that is wanted failed a blocking check; nothing is written.
        StoreError: the store cannot be written.
    """
    _refuse_failed(pipeline, wanted)
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


def _refuse_failed(pipeline: Pipeline, wanted: Wanted) -> None:
    failed_checks = FailedChecks(pipeline)
    reasons = [failed_checks.reason(key) for keys in wanted.values() for key in keys]
    failed = [reason for reason in reasons if reason is not None]
    if failed:
        more = f" (and {len(failed) - 1} more partitions)" if len(failed) > 1 else ""
        raise CheckFailed(f"a blocking check failed: {failed[0]}{more}")
