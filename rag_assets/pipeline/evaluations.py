"""Evaluations: snapshots that name the artifacts of one moment, and the pointer to the current one.

``<store>/<experiment>/evaluations/<id>.json`` is written once; ``current`` holds an id and is
swapped at the end of an evaluation. A reader so sees one consistent state, and old states stay.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.experiment.names import RESERVED
from rag_assets.schemas import SCHEMA_VERSION
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.atomic import TEMPORARY_MARK
from rag_assets.store.canonical import fingerprint
from rag_assets.store.settings import StoreSettings

FOLDER = "evaluations"
HISTORY_DIR = "history"
CURRENT = "current"
ANCHOR = "anchor"
RANKINGS = "rankings"
"""The asset of rankings, which snapshots name apart."""

CHECKSUM = "sha256"
"""In a snapshot: the fingerprint of its other fields."""


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
        files: key of the YAML -> ``name`` and ``sha256`` of the file that it names.
    """

    user: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)
    code_versions: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def experiment_digest(self) -> str | None:
        """SHA-256 of the configuration; None where it was not kept."""
        return fingerprint(self.configuration) if self.configuration else None


@dataclass(frozen=True)
class SnapshotEntry:
    """One partition in a snapshot.

    Attributes:
        path: of its artifact, relative to the store.
        files: name -> SHA-256 of each of its files; none in a snapshot of an older version.
    """

    asset: str
    partition: Mapping[str, str]
    fingerprint: str
    digest: str
    rows: int
    path: str
    files: Mapping[str, str] = field(default_factory=dict)

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
        remarks: lines about files beside the data that may not be read as one thinks, and about
            models that judge their own work.
        rankings: what the runs among the entries were cut from, by retriever and depth.
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
    remarks: tuple[str, ...] = ()
    rankings: tuple[SnapshotEntry, ...] = ()
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


def snapshot_file(root: Path, evaluation_id: str) -> Path:
    """Return the file of a snapshot in an experiment's folder of the store."""
    return root / FOLDER / f"{evaluation_id}.json"


def snapshot_ids(root: Path) -> list[str]:
    """Return the ids of all evaluations whose snapshot is there, the oldest first."""
    files = (root / FOLDER).glob("*.json")
    return sorted(file.stem for file in files if TEMPORARY_MARK not in file.name)


def read_current(root: Path) -> Evaluation:
    """Return the current evaluation of the experiment whose folder in the store is ``root``.

    Raises:
        NotEvaluated: there is none.
        StoreError: the snapshot cannot be read.
    """
    current = pointed(root / CURRENT)
    if current is None:
        raise NotEvaluated(f"{root.name} has no evaluation in {root.parent} yet")
    return read_evaluation(snapshot_file(root, current))


def pointed(pointer: Path) -> str | None:
    """Return the id that a pointer holds, ``current`` or ``anchor``; None: there is no such file.

    Raises:
        StoreError: it holds something else.
    """
    if not pointer.is_file():
        return None
    evaluation_id = pointer_text(pointer.read_bytes())
    if evaluation_id is None:
        remedy = {
            CURRENT: "`rag-assets evaluate PATH` writes it again",
            ANCHOR: "`rag-assets anchor PATH` pins an evaluation again",
        }
        raise StoreError(f"{pointer}: is damaged, it has no id; {remedy[pointer.name]}")
    return evaluation_id


def pointer_text(content: bytes | None) -> str | None:
    """Return the id that the content of a pointer is; None: it is none."""
    text = (content or b"").strip().decode("ascii", "replace")
    return text if re.fullmatch(r"[\w.-]+", text, re.ASCII) else None


def fetch_experiments(settings: StoreSettings, *names: str) -> None:
    """Bring the records of experiments (all without names) and what is current in them from S3."""
    if settings.remote is not None:
        for name in settings.remote.pull(names):
            pointer = settings.store / name / CURRENT
            current = pointer_text(pointer.read_bytes() if pointer.exists() else b"")
            if current is not None:
                fetch_evaluation(settings, name, current)


def fetch_evaluation(settings: StoreSettings, name: str, evaluation_id: str) -> None:
    """Bring the tables that an evaluation names from a remote store, and their measurements.

    A ranking is brought when something is cut from it anew, an index when it is searched.
    """
    remote = settings.remote
    entries = list(named_entries(snapshot_file(settings.store / name, evaluation_id)))
    if remote is not None and entries:
        paths = (settings.store / entry["path"] for entry in entries if entry["asset"] != RANKINGS)
        remote.fetch_entries(paths)
        remote.fetch("measurements", {entry["fingerprint"][:16] for entry in entries})


def named_entries(snapshot: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a snapshot, rankings too; none where it cannot be read."""
    try:
        content = json.loads(snapshot.read_text(encoding="utf-8"))
        yield from [*content["entries"], *content.get(RANKINGS, ())]
    except (OSError, ValueError, KeyError, TypeError):
        return


def snapshot_text(evaluation: Evaluation) -> str:
    """Return a snapshot as it is stored: JSON with a checksum."""
    fields = json.loads(json.dumps({**asdict(evaluation), "content": evaluation.content}))
    return json.dumps({**fields, CHECKSUM: fingerprint(fields)}, indent=1)


def read_evaluation(file: Path) -> Evaluation:
    """Read one snapshot."""
    source = "PATH"
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        source = shlex.quote(str(data["source"]))
        if data["schema_version"] != SCHEMA_VERSION:
            version = data["schema_version"]
            raise ValueError(f"schema version {version}, this program uses {SCHEMA_VERSION}")
        if data.pop(CHECKSUM, None) not in (None, fingerprint(data)):  # older ones have none
            raise ValueError("it is damaged")
        return msgspec.convert(data, Evaluation)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"{file}: is not a readable evaluation ({error}); to write a new one: "
            f"rag-assets evaluate {source}"
        ) from error


def source_of_current(root: Path) -> str | None:
    """Return whose current evaluation lies in a folder of the store; None: nobody's."""
    try:
        return read_current(root).source
    except (NotEvaluated, StoreError):
        return None


def all_experiments(store: Path) -> list[Path]:
    """Return the folders of all experiments that have a current evaluation."""
    return sorted(pointer.parent for pointer in store.glob(f"*/{CURRENT}"))


def stored_experiments(store: Path) -> list[Path]:
    """Return the folders of all experiments of which anything is stored, evaluated or not."""
    here = [file.parent for name in (FOLDER, HISTORY_DIR) for file in store.glob(f"*/{name}")]
    names = {folder.name for folder in here if not folder.name.startswith("_")} - RESERVED
    return sorted(store / name for name in names)
