"""Evaluations: snapshots that name the artifacts of one moment, and the pointer to the current one.

``<store>/<experiment>/evaluations/<id>.json`` is written once; ``current`` holds an id and is
swapped at the end of an evaluation. A reader so sees one consistent state, and old states stay.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.pipeline.bringing import bring_current
from rag_assets.pipeline.failures import has_failures
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.pipeline.history_rows import history_table
from rag_assets.pipeline.origin import Origin, origin_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.publishing import publish
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint
from rag_assets.store.remote.opened import shown_store

FOLDER = "evaluations"
CURRENT = "current"


@dataclass(frozen=True)
class SnapshotEntry:
    """One partition in a snapshot; ``path`` is relative to the experiment's folder in the store."""

    asset: str
    partition: Mapping[str, str]
    fingerprint: str
    digest: str
    rows: int
    path: str

    @property
    def key(self) -> ArtifactKey:
        """The partition's key."""
        return ArtifactKey(self.asset, tuple(self.partition.items()))


@dataclass(frozen=True)
class Evaluation:
    """One execution over an experiment.

    Attributes:
        evaluation_id: ordered by time.
        primary: the metric that ranks its leaderboard.
        complete: whether every cell of the experiment was up to date at the end, and no retriever
            failed on a query.
        computed: how many partitions were computed; the others were reused.
        dagster_runs: ids of the Dagster runs that it started.
        entries: all partitions that were up to date at the end.
        origin: who made it, and from which configuration, code and packages.
    """

    evaluation_id: str
    experiment: str
    source: str
    started: str
    finished: str
    trigger: str
    primary: str
    baseline: str
    complete: bool
    computed: int
    dagster_runs: tuple[str, ...]
    entries: tuple[SnapshotEntry, ...]
    origin: Origin = field(default_factory=Origin)
    schema_version: int = SCHEMA_VERSION

    def entries_of(self, asset: str) -> list[SnapshotEntry]:
        """Return the entries of one asset."""
        return [entry for entry in self.entries if entry.asset == asset]

    @property
    def content(self) -> str:
        """Digest of what the snapshot names, whenever it was made."""
        return fingerprint([[str(e.key), e.fingerprint, e.digest] for e in self.entries])


def new_evaluation_id(now: datetime) -> str:
    """Return an id that sorts by time and is unique across processes."""
    return f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(2)}"


def record(
    pipeline: Pipeline,
    *,
    started: datetime,
    trigger: str,
    computed: int,
    dagster_runs: tuple[str, ...] = (),
) -> Evaluation:
    """Write the snapshot of what is current now and its row of the history, and make it current."""
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
        and not has_failures(pipeline),
        computed=computed,
        dagster_runs=dagster_runs,
        entries=entries,
        origin=origin_of(experiment),
    )
    root = pipeline.store.root
    pipeline.store.verified.save()
    text = json.dumps({**asdict(evaluation), "content": evaluation.content}, indent=1)
    write_text(root / FOLDER / f"{evaluation.evaluation_id}.json", text)
    HistoryFiles(root, pipeline.settings.locks).add(history_table(root, [evaluation]))
    publish(root, pipeline.settings.locks, evaluation.evaluation_id, computed=computed)
    write_text(root / CURRENT, evaluation.evaluation_id)
    return evaluation


def _is_cell(entry: SnapshotEntry, has_qrels: bool) -> bool:
    return entry.asset == "metrics" if has_qrels else entry.asset.endswith("_runs")


def _entries(pipeline: Pipeline) -> list[SnapshotEntry]:
    entries = []
    for stage in pipeline.stages():
        for key in stage.keys(pipeline.experiment):
            artifact = pipeline.current(key)
            if artifact is not None:
                entries.append(
                    SnapshotEntry(
                        asset=key.asset,
                        partition=dict(key.partition),
                        fingerprint=artifact.manifest.fingerprint,
                        digest=artifact.manifest.digests["all"],
                        rows=artifact.manifest.rows,
                        path=artifact.path.relative_to(pipeline.store.root).as_posix(),
                    )
                )
    return entries


def read_current(root: Path) -> Evaluation:
    """Return the current evaluation of the experiment whose folder in the store is ``root``.

    Raises:
        NotEvaluated: there is none.
        StoreError: the snapshot cannot be read.
    """
    bring_current(root)
    pointer = root / CURRENT
    if not pointer.is_file():
        raise NotEvaluated(f"{root.name} has no evaluation in {shown_store(root.parent)} yet")
    return read_evaluation(root / FOLDER / f"{pointer.read_text(encoding='utf-8')}.json")


def read_evaluation(file: Path) -> Evaluation:
    """Read one snapshot.

    Raises:
        StoreError: it cannot be read, or is of another schema version.
    """
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        _check_version(file, data)
        entries = tuple(SnapshotEntry(**entry) for entry in data.pop("entries"))
        runs = tuple(data.pop("dagster_runs"))
        origin = Origin(**data.pop("origin", {}))
        data.pop("content")
        evaluation = Evaluation(**data, entries=entries, dagster_runs=runs, origin=origin)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{file}: is not a readable evaluation ({error})") from error
    return evaluation


def _check_version(file: Path, data: dict[str, Any]) -> None:
    """Refuse a snapshot of another version before its fields are looked at."""
    found = data["schema_version"]
    if found != SCHEMA_VERSION:
        source = shlex.quote(str(data["source"]))
        raise StoreError(
            f"{file}: schema version {found}, this program writes {SCHEMA_VERSION}; evaluate the "
            f"experiment again: rag-assets evaluate {source}"
        )


def all_experiments(store: Path) -> list[Path]:
    """Return the folders of all experiments that have a current evaluation."""
    return sorted(pointer.parent for pointer in store.glob(f"*/{CURRENT}"))
