"""Mark and sweep: finds what may be removed from a store, local or remote.

What a kept snapshot of any experiment names stays, and so does the ranking from which a kept run
was cut. The latest evaluation and the anchor of each experiment are always kept; the rows of the
history always stay. Who removes has the store alone, see :mod:`rag_assets.store.locks`: so nobody
needs or writes an object between mark and sweep that no snapshot names yet.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.pipeline.evaluations import (
    ANCHOR,
    CURRENT,
    FOLDER,
    Evaluation,
    pointed,
    read_evaluation,
    snapshot_file,
    snapshot_ids,
    stored_experiments,
)
from rag_assets.pipeline.history_files import HISTORY_DIR
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.atomic import TEMPORARY_MARK
from rag_assets.store.content_cache import CACHE
from rag_assets.store.settings import StoreSettings

SPARED = timedelta(hours=1)
"""What is younger is no orphan: single partitions may be computed before there is a snapshot."""

SNAPSHOTS = "snapshots"
TEMPORARY = "temporary files"

OTHER = "other files"
"""Never removed: what the user put beside evaluations and history."""

SHARED = (OBJECTS, MEASUREMENTS, CACHE)
"""Folders of what all experiments share."""


@dataclass(frozen=True)
class Item:
    """A file of a store, or a folder that is one artifact.

    Attributes:
        path: where it lies, in the local copy if the store is a remote one.
        kind: the asset whose artifact it is; or snapshots, measurements, temporary files.
        size: bytes.
        modified: when the last of its files was written, in nanoseconds since 1970.
        experiment: in whose folder it lies, or who named it; empty: none does.
        reason: why it may go.
    """

    path: Path
    kind: str
    size: int
    modified: int = 0
    experiment: str = ""
    reason: str = ""


def items(settings: StoreSettings) -> list[Item]:
    """Return all that is stored of results and in caches, here or in the remote store."""
    store = settings.store
    by_path: dict[Path, Item] = {}
    for path, (n_bytes, written) in _files(settings).items():
        parts = path.relative_to(store).parts
        kind, depth = _kind_of(parts)
        owner = store.joinpath(*parts[:depth])
        experiment = parts[0] if parts[0] not in SHARED else ""
        item = by_path.get(owner) or Item(owner, kind, 0, 0, experiment)
        size, modified = item.size + n_bytes, max(item.modified, written)
        by_path[owner] = replace(item, size=size, modified=modified)
    return sorted(by_path.values(), key=lambda item: item.path)


def _files(settings: StoreSettings) -> dict[Path, tuple[int, int]]:
    """Return files, and empty folders, with their bytes and the time when each was written."""
    store = settings.store
    roots = [*stored_experiments(store), *(store / name for name in SHARED)]
    files: dict[Path, tuple[int, int]] = {}
    for path in (path for root in roots for path in root.rglob("*")):
        with suppress(FileNotFoundError):  # gone since it was listed
            status = path.stat()
            if path.is_file() or not any(path.iterdir()):
                files[path] = (status.st_size, status.st_mtime_ns)
    if settings.remote is not None:
        names = {root.name for root in roots}
        for name, listed in settings.remote.listing.items():
            if name.partition("/")[0] in names:
                files[store / name] = (listed.size, listed.modified)
    return files


def _kind_of(parts: tuple[str, ...]) -> tuple[str, int]:
    """Return what a file is, or belongs to, and how many parts of its name are that one's."""
    for depth, part in enumerate(parts, 1):
        if TEMPORARY_MARK in part:
            return TEMPORARY, depth
    if len(parts) < 3:
        return OTHER, len(parts)
    if parts[0] == OBJECTS:
        return parts[1], 3
    if parts[0] in SHARED:
        return parts[0], len(parts)
    return {FOLDER: SNAPSHOTS, HISTORY_DIR: HISTORY_DIR}.get(parts[1], OTHER), len(parts)


def snapshots_of(root: Path) -> list[Evaluation]:
    """Return all snapshots of an experiment.

    Raises:
        StoreError: one cannot be read, so it is not known what it names.
    """
    return [read_evaluation(snapshot_file(root, name)) for name in snapshot_ids(root)]


def removable(
    settings: StoreSettings,
    older_than: timedelta | None,
    *,
    orphans: bool,
    cache_age: timedelta | None = None,
    experiment: str | None = None,
    now: datetime | None = None,
) -> list[Item]:
    """Return what may go, each with the reason; snapshots first: none then names what is gone.

    Args:
        settings: the store; of a remote one, the records of all experiments were brought.
        older_than: snapshots of evaluations that began longer ago, and what they alone name; None:
            no snapshot.
        orphans: also what no snapshot names, and unfinished files.
        cache_age: also entries of caches that were stored longer ago; None: none of them.
        experiment: only snapshots of this one, what they alone name, and what lies in its folder.
        now: the present, in UTC.

    Raises:
        StoreError: a snapshot cannot be read, so it is not known what it names.
    """
    now = now or datetime.now(UTC)
    store = settings.store
    kept, gone = _Named(store), _Named(store)
    outdated: set[Path] = set()
    for root in stored_experiments(store):
        is_chosen = experiment in (None, root.name) and older_than is not None
        limit = now - older_than if is_chosen and older_than is not None else None
        pinned = {pointed(root / name) for name in (CURRENT, ANCHOR)}
        for one in snapshots_of(root):
            is_old = limit is not None and datetime.fromisoformat(one.started) < limit
            if is_old and one.evaluation_id not in pinned:
                outdated.add(snapshot_file(root, one.evaluation_id))
                gone.add(root.name, one)
            else:
                kept.add(root.name, one)
    garbage: list[Item] = []
    for item in items(settings):
        written = datetime.fromtimestamp(item.modified / 1e9, UTC)
        if item.path in outdated:
            garbage.insert(0, replace(item, reason="older"))
        elif item.kind == CACHE and cache_age is not None and written < now - cache_age:
            kind = f"{CACHE}/{item.path.relative_to(store).parts[1]}"
            garbage.append(replace(item, kind=kind, reason="older"))
        elif item.kind in (SNAPSHOTS, CACHE, HISTORY_DIR, OTHER) or kept.by(item):
            continue
        elif owners := gone.by(item):
            by = ", ".join(sorted(owners))
            garbage.append(replace(item, experiment=by, reason="only older name it"))
        elif orphans and experiment in (None, item.experiment) and written < now - SPARED:
            is_unfinished = item.kind == TEMPORARY
            reason = "never finished" if is_unfinished else "no snapshot names it"
            garbage.append(replace(item, reason=reason))
    return garbage


class _Named:
    """What snapshots name, by whom: paths, and first digits of fingerprints for measurements."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._names: dict[Path | str, set[str]] = {}

    def add(self, experiment: str, evaluation: Evaluation) -> None:
        """Add what a snapshot of an experiment names."""
        for entry in (*evaluation.entries, *evaluation.rankings):
            for name in (self._store / entry.path, entry.fingerprint[:16]):
                self._names.setdefault(name, set()).add(experiment)

    def by(self, item: Item) -> set[str]:
        """Return the experiments that name it."""
        name = item.path.name[:16] if item.kind == MEASUREMENTS else item.path
        return self._names.get(name, set())
