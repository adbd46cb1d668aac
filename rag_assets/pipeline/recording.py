"""Ends an evaluation: its snapshot, its row of the history, and the pointer to the current one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluations import (
    CURRENT,
    FOLDER,
    Evaluation,
    SnapshotEntry,
    new_evaluation_id,
    snapshot_text,
)
from rag_assets.pipeline.failed_queries import failed_answers, failed_queries
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.pipeline.history_rows import history_table
from rag_assets.pipeline.origin import origin_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.publishing import publish
from rag_assets.pipeline.rankings import ASSET as RANKINGS
from rag_assets.store.artifacts import Artifact
from rag_assets.store.atomic import remove, write_text
from rag_assets.store.leases import check_lease


def record(
    pipeline: Pipeline,
    *,
    started: datetime,
    trigger: str,
    computed: int,
    dagster_runs: tuple[str, ...] = (),
) -> Evaluation:
    """Write the snapshot of what is current now and its row of the history, and make it current.

    Raises:
        StoreError: the store cannot be written, or what was found in it may be gone.
    """
    experiment = pipeline.experiment
    entries = tuple(_entries(pipeline))
    cells = len(experiment.retrievers) * len(experiment.top_k)
    evaluation = Evaluation(
        evaluation_id=new_evaluation_id(started),
        experiment=experiment.name,
        source=str(experiment.source),
        started=started.isoformat(timespec="milliseconds"),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        trigger=trigger,
        primary=str(experiment.primary),
        baseline=experiment.baseline,
        complete=sum(_is_cell(entry, experiment.has_qrels) for entry in entries) == cells
        and not failed_queries(pipeline)
        and not failed_answers(pipeline),
        computed=computed,
        dagster_runs=dagster_runs,
        entries=entries,
        rankings=tuple(_rankings(pipeline, entries)),
        origin=origin_of(experiment, _code_versions(pipeline)),
        unread_labels=experiment.unread_labels,
    )
    root = pipeline.root
    pipeline.store.verified.save()
    snapshot = root / FOLDER / f"{evaluation.evaluation_id}.json"
    write_text(snapshot, snapshot_text(evaluation))
    try:
        check_lease(pipeline.settings.store)
    except StoreError:
        remove(snapshot)
        raise
    HistoryFiles(root, pipeline.settings.locks).add(history_table(root, [evaluation]))
    locks = pipeline.settings.locks
    write_text(root / CURRENT, publish(root, locks, evaluation.evaluation_id, computed=computed))
    return evaluation


def _is_cell(entry: SnapshotEntry, has_qrels: bool) -> bool:
    return entry.asset == "metrics" if has_qrels else entry.asset.endswith("_runs")


def _entries(pipeline: Pipeline) -> Iterator[SnapshotEntry]:
    for stage in pipeline.stages():
        for key in stage.keys(pipeline.experiment):
            artifact = pipeline.current(key)
            if artifact is not None:
                yield _entry(pipeline, dict(key.partition), artifact)


def _entry(pipeline: Pipeline, partition: Mapping[str, str], artifact: Artifact) -> SnapshotEntry:
    manifest = artifact.manifest
    return SnapshotEntry(
        asset=manifest.asset,
        partition=partition,
        fingerprint=manifest.fingerprint,
        digest=manifest.digests["all"],
        rows=manifest.rows,
        path=artifact.path.relative_to(pipeline.settings.store).as_posix(),
        files=manifest.files,
    )


def _rankings(pipeline: Pipeline, entries: Iterable[SnapshotEntry]) -> Iterator[SnapshotEntry]:
    """Yield the rankings that the runs were cut from; one that is gone is not needed for them."""
    seen = set()
    for entry in entries:
        artifact = pipeline.current(entry.key) if entry.asset.endswith("_runs") else None
        named = str(artifact.manifest.facts.get("ranking", "")) if artifact is not None else ""
        retriever = entry.partition.get("retriever", "")
        if named and (retriever, named) not in seen:
            seen.add((retriever, named))
            ranking = pipeline.store.find(RANKINGS, named)
            if ranking is not None:
                depth = str(ranking.manifest.facts["depth"])
                yield _entry(pipeline, {"retriever": retriever, "depth": depth}, ranking)


def _code_versions(pipeline: Pipeline) -> dict[str, str]:
    """Return the version of each stage's own code, whatever the experiment names."""
    return {stage.name: pipeline.code_version(stage.own_code()) for stage in pipeline.stages()}
