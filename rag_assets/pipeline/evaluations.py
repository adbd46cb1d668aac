"""Evaluations: snapshots that name the artifacts of one moment, and the pointer to the current one.

``<store>/<experiment>/evaluations/<id>.json`` is written once; ``current`` holds an id and is
swapped at the end of an evaluation. A reader so sees one consistent state, and old states stay.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.pipeline.bringing import bring_current
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.artifacts import OBJECTS, ArtifactKey
from rag_assets.store.canonical import fingerprint
from rag_assets.store.remote.opened import shown_store

FOLDER = "evaluations"
CURRENT = "current"


@dataclass(frozen=True)
class Origin:
    """Where an evaluation comes from.

    Attributes:
        user: name of the account that ran it; None: it has none.
        git_commit: of the repository that holds the experiment; None: none does.
        git_dirty: whether files of the experiment differ from that commit.
        configuration: the experiment with its defaults filled in, without paths and keys.
        code_versions: stage -> its code version, of the stages that the experiment uses.
        packages: package -> version.
    """

    user: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)
    code_versions: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def experiment_digest(self) -> str | None:
        """SHA-256 of the configuration; None where it was not kept."""
        return fingerprint(self.configuration) if self.configuration else None


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
        unread_labels: a line about files that look like labels, where there were no labels.
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
    unread_labels: str | None = None
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


def source_of_current(root: Path) -> str | None:
    """Return whose current evaluation lies in a folder of the store, as far as it is here."""
    try:
        name = (root / CURRENT).read_text(encoding="utf-8")
        data = json.loads((root / FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        return str(data["source"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_of_older_store(root: Path) -> bool:
    """Return whether the current evaluation names artifacts that lie where none is written now."""
    try:
        evaluation = read_current(root)
    except (NotEvaluated, StoreError):
        return False
    return any(not entry.path.startswith(f"{OBJECTS}/") for entry in evaluation.entries)


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
