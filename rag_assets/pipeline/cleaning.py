"""Mark and sweep: finds what may be removed from a store, local or remote.

What a kept snapshot of any experiment names stays, and so does the ranking from which a kept run
was cut. The latest evaluation and the anchor of each experiment are always kept; the rows of the
history always stay. Who removes has the store alone, see :mod:`rag_assets.store.locks`: so nobody
needs or writes an object between mark and sweep that no snapshot names yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.pipeline.evaluation_names import anchor_id, snapshot_ids
from rag_assets.pipeline.evaluations import (
    CURRENT,
    FOLDER,
    Evaluation,
    SnapshotEntry,
    pointed,
    read_evaluation,
)
from rag_assets.pipeline.remote_sync import HISTORY, experiment_roots
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.atomic import TEMPORARY_MARK
from rag_assets.store.content_cache import CACHE
from rag_assets.store.remote.removals import stored_files

SPARED = timedelta(hours=1)
"""What is younger is no orphan: single partitions may be computed before there is a snapshot."""

SNAPSHOTS = "snapshots"
TEMPORARY = "temporary files"

OTHER = "other files"
"""Never removed: what the user, or a version before 0.1.0, put beside evaluations and history."""

SHARED = (OBJECTS, MEASUREMENTS, CACHE)
"""Folders of what all experiments share."""


@dataclass(frozen=True)
class Item:
    """A file of a store, or a folder that is one artifact.

    Attributes:
        path: where it lies, in the working copy if the store is a remote one.
        kind: the asset whose artifact it is; or snapshots, measurements, temporary files.
        size: bytes.
        modified: when the last of its files was written, in nanoseconds since 1970.
        experiment: in whose folder it lies, or who named it; empty: none does.
        reason: why it may go.
    """

    path: Path
    kind: str
    size: int
    modified: int
    experiment: str = ""
    reason: str = ""


def items(store: Path) -> list[Item]:
    """Return all that is stored of results and in caches, here or in the remote store."""
    by_path: dict[Path, Item] = {}
    for folder in (*experiment_roots(store), *(store / name for name in SHARED)):
        for path, listed in stored_files(folder).items():
            parts = path.relative_to(store).parts
            kind, depth = _kind_of(parts)
            owner = store.joinpath(*parts[:depth])
            whose = parts[0] if parts[0] not in SHARED else ""
            known = by_path.get(owner) or Item(owner, kind, 0, 0, whose)
            size, modified = known.size + listed.size, max(known.modified, listed.modified)
            by_path[owner] = replace(known, size=size, modified=modified)
    return sorted(by_path.values(), key=lambda item: item.path)


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
    return {FOLDER: SNAPSHOTS, HISTORY: HISTORY}.get(parts[1], OTHER), len(parts)


def snapshots_of(root: Path) -> list[Evaluation]:
    """Return all snapshots of an experiment.

    Raises:
        StoreError: one cannot be read, so it is not known what it names.
    """
    return [read_evaluation(root / FOLDER / f"{name}.json") for name in snapshot_ids(root)]


def removable(
    store: Path,
    older_than: timedelta | None,
    *,
    orphans: bool,
    cache_age: timedelta | None = None,
    experiment: str | None = None,
    now: datetime | None = None,
) -> list[Item]:
    """Return what may go, each with the reason; snapshots first: none then names what is gone.

    Args:
        store: the store; of a remote one, the records of all experiments were brought.
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
    kept: dict[Path, list[Evaluation]] = {}
    gone: dict[Path, list[Evaluation]] = {}
    for root in experiment_roots(store):
        snapshots, chosen = snapshots_of(root), experiment in (None, root.name)
        limit = now - older_than if chosen and older_than is not None else None
        gone[root] = _outdated(root, snapshots, limit)
        kept[root] = [one for one in snapshots if one not in gone[root]]
    named, freed = _Named.by(store, kept), _Named.by(store, gone)
    outdated = {root / FOLDER / f"{e.evaluation_id}.json" for root in gone for e in gone[root]}
    young = (now - SPARED).timestamp() * 1e9
    garbage: list[Item] = []
    for item in items(store):
        if item.path in outdated:
            garbage.insert(0, replace(item, reason="older"))
        elif item.kind == CACHE and cache_age is not None:
            if item.modified < (now - cache_age).timestamp() * 1e9:
                kind = f"cache/{item.path.relative_to(store).parts[1]}"
                garbage.append(replace(item, kind=kind, reason="older"))
        elif item.kind in (SNAPSHOTS, CACHE, HISTORY, OTHER) or named.of(item):
            continue
        elif by := freed.of(item):
            garbage.append(
                replace(item, experiment=", ".join(sorted(by)), reason="only older name it")
            )
        elif orphans and experiment in (None, item.experiment) and item.modified < young:
            unfinished = item.kind == TEMPORARY
            reason = "never finished" if unfinished else "no snapshot names it"
            garbage.append(replace(item, reason=reason))
    return garbage


def _outdated(root: Path, snapshots: list[Evaluation], limit: datetime | None) -> list[Evaluation]:
    pinned = {pointed(root / CURRENT), anchor_id(root)}
    return [
        one
        for one in snapshots
        if limit is not None
        and one.evaluation_id not in pinned
        and datetime.fromisoformat(one.started) < limit
    ]


@dataclass(frozen=True)
class _Named:
    """What snapshots name, by whom: paths, and first digits of fingerprints for measurements."""

    paths: Mapping[Path, set[str]]
    prints: Mapping[str, set[str]]

    @classmethod
    def by(cls, store: Path, snapshots: Mapping[Path, Iterable[Evaluation]]) -> _Named:
        paths: dict[Path, set[str]] = {}
        prints: dict[str, set[str]] = {}
        for root, entries in named_by(snapshots).items():
            for entry in entries:
                paths.setdefault(store / entry.path, set()).add(root.name)
                prints.setdefault(entry.fingerprint[:16], set()).add(root.name)
        return cls(paths, prints)

    def of(self, item: Item) -> set[str]:
        """Return the experiments that name it."""
        named = self.paths.get(item.path, set())
        if item.kind == MEASUREMENTS:
            named = named | self.prints.get(item.path.name[:16], set())
        return named


def named_by(snapshots: Mapping[Path, Iterable[Evaluation]]) -> dict[Path, list[SnapshotEntry]]:
    """Return what the snapshots of each experiment name, each artifact once."""
    return {
        root: list({e.path: e for one in own for e in (*one.entries, *one.rankings)}.values())
        for root, own in snapshots.items()
    }
