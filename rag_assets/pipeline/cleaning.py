"""Finds what may be removed from an experiment's folder in the store.

An artifact that a kept snapshot names stays, and so does the ranking from which a kept run was cut.
The latest evaluation and the anchor are always kept; the rows of the history always stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_assets.pipeline.cache_keys import experiment_roots, snapshots_of
from rag_assets.pipeline.evaluation_names import anchor_id
from rag_assets.pipeline.evaluations import CURRENT, FOLDER, Evaluation, pointed
from rag_assets.pipeline.measurements import MEASUREMENTS
from rag_assets.pipeline.rankings import ASSET as RANKINGS
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import DEPTH_MARK, OBJECTS, read_manifest
from rag_assets.store.atomic import TEMPORARY_MARK

SPARED = timedelta(hours=1)
"""What is younger may belong to an evaluation that runs now, and is no orphan."""

SNAPSHOTS = "snapshots"
TEMPORARY = "temporary files"


@dataclass(frozen=True)
class Removable:
    """A file or folder that may go.

    Attributes:
        path: where it lies.
        kind: the asset whose artifact it is; or snapshots, measurements, temporary files.
        size: bytes on disk.
    """

    path: Path
    kind: str
    size: int


@dataclass(frozen=True)
class _Named:
    """What snapshots name: paths of artifacts, and the fingerprints (16 digits) of rankings."""

    paths: frozenset[Path]
    rankings: frozenset[str]

    def holds(self, path: Path) -> bool:
        return path in self.paths or short_of(path) in self.rankings


def removable(
    root: Path,
    older_than: timedelta | None,
    *,
    orphans: bool,
    now: datetime | None = None,
) -> list[Removable]:
    """Return what may go, snapshots first: none then names what is gone.

    Args:
        root: the experiment's folder in the store.
        older_than: snapshots of evaluations that began longer ago, and what they alone name; None:
            no snapshot.
        orphans: also artifacts that no snapshot names, their measurements, and unfinished files.
        now: the present, in UTC.

    Raises:
        StoreError: a snapshot cannot be read, so it is not known what it names.
    """
    now = now or datetime.now(UTC)
    snapshots = snapshots_of(root)
    gone = _outdated(root, snapshots, now - older_than) if older_than is not None else []
    kept = [one for one in snapshots if one not in gone]
    others = [
        one
        for other in experiment_roots(root.parent)
        if other != root
        for one in snapshots_of(other)
    ]
    named, freed = _named(root, [*kept, *others]), _named(root, gone)
    found = [
        Removable(_snapshot(root, one), SNAPSHOTS, size_of(_snapshot(root, one))) for one in gone
    ]
    for asset, path in artifacts_of(root):
        if named.holds(path):
            continue
        if freed.holds(path) or (orphans and _is_older(path, now - SPARED)):
            found.append(Removable(path, asset, size_of(path)))
    if orphans:
        found += _left_over(root, named, now - SPARED)
    return found


def _outdated(root: Path, snapshots: list[Evaluation], limit: datetime) -> list[Evaluation]:
    pinned = {pointed(root / CURRENT), anchor_id(root)}
    return [
        one
        for one in snapshots
        if one.evaluation_id not in pinned and datetime.fromisoformat(one.started) < limit
    ]


def _snapshot(root: Path, evaluation: Evaluation) -> Path:
    return root / FOLDER / f"{evaluation.evaluation_id}.json"


def _named(root: Path, snapshots: list[Evaluation]) -> _Named:
    entries = {entry.path: entry for one in snapshots for entry in (*one.entries, *one.rankings)}
    rankings = set()
    for entry in entries.values():
        if entry.asset.endswith("_runs"):
            manifest = read_manifest(root.parent / entry.path)
            if manifest is not None:
                rankings.add(str(manifest.facts.get("ranking"))[:16])
    return _Named(frozenset(root.parent / path for path in entries), frozenset(rankings))


def artifacts_of(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield every artifact of every asset in the store, and what an older one has at ``root``."""
    for asset in (*STAGES, RANKINGS):
        folders = [root / asset, root.parent / OBJECTS / asset]
        while folders:
            folder = folders.pop()
            for path in sorted(folder.iterdir()) if folder.is_dir() else []:
                if "=" in path.name:
                    folders.append(path)
                elif TEMPORARY_MARK not in path.name:
                    yield asset, path


def short_of(path: Path) -> str:
    """Return the first digits of the fingerprint that a file or folder is named by."""
    return path.name.partition(".")[0].partition(DEPTH_MARK)[0]


def _left_over(root: Path, named: _Named, limit: datetime) -> Iterator[Removable]:
    known = {short_of(path) for path in named.paths} | named.rankings
    for path in sorted(root.parent.glob(f"{MEASUREMENTS}/*/*.json")):
        if path.name[:16] not in known and _is_older(path, limit):
            yield Removable(path, MEASUREMENTS, size_of(path))
    for folder in (root, root.parent / OBJECTS):
        yield from (one for one in unfinished(folder) if _is_older(one.path, limit))


def unfinished(folder: Path) -> Iterator[Removable]:
    """Yield all files and folders below a folder that were never finished."""
    for path in sorted(folder.rglob(f"*{TEMPORARY_MARK}*")):
        inside = any(TEMPORARY_MARK in parent.name for parent in path.relative_to(folder).parents)
        if not inside:
            yield Removable(path, TEMPORARY, size_of(path))


def _is_older(path: Path, limit: datetime) -> bool:
    try:
        return path.stat().st_mtime < limit.timestamp()
    except FileNotFoundError:
        return False


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
