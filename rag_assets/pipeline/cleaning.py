"""Finds what may be removed from a store because nobody needs it.

What a kept snapshot of any experiment names stays, and so does the ranking from which a kept run
was cut. The latest evaluation and the anchor of each experiment are always kept; the rows of the
history always stay. Who removes has the store alone, see :mod:`rag_assets.store.locks`: so nobody
needs or writes an object between mark and sweep that no snapshot names yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.pipeline.evaluations import (
    ANCHOR,
    CURRENT,
    FOLDER,
    HISTORY_DIR,
    Evaluation,
    pointed,
    read_evaluation,
    snapshot_file,
    snapshot_ids,
    stored_experiments,
)
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
        kind: the asset whose artifact it is; or snapshots, measurements, temporary files, or a
            cache, such as ``cache/embeddings``.
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

    @property
    def is_cached(self) -> bool:
        """Whether it is a file of a cache."""
        return self.kind.startswith(f"{CACHE}/")


def items(settings: StoreSettings) -> list[Item]:
    """Return all that is stored of results and in caches, here or in the remote store."""
    store = settings.store
    roots = [*stored_experiments(store), *(store / name for name in SHARED)]
    paths = [path for root in roots for path in root.rglob("*")]
    for folders in ("", "*/", "*/*/"):  # and what a killed process left beside them
        paths += settings.state_dir.glob(f"{folders}*{TEMPORARY_MARK}*")
    files: dict[Path, tuple[int, int]] = {}
    for path in paths:
        with suppress(FileNotFoundError):  # gone since it was listed
            status = path.stat()
            if path.is_file() or not any(path.iterdir()):
                files[path] = (status.st_size, status.st_mtime_ns)
    names = {root.name for root in roots}
    for name, listed in settings.remote.listing.items() if settings.remote is not None else ():
        if name.partition("/")[0] in names:
            files[store / name] = (listed.size, listed.modified)
    by_path: dict[Path, Item] = {}
    for path, (n_bytes, written) in files.items():
        parts = (path.relative_to(store) if path.is_relative_to(store) else path).parts
        kind, depth = _kind_of(parts)
        owner = store.joinpath(*parts[:depth])
        experiment = parts[0] if parts[0] in names.difference(SHARED) else ""
        item = by_path.get(owner) or Item(owner, kind, 0, 0, experiment)
        size, modified = item.size + n_bytes, max(item.modified, written)
        by_path[owner] = replace(item, size=size, modified=modified)
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
        return f"{CACHE}/{parts[1]}" if parts[0] == CACHE else parts[0], len(parts)
    return {FOLDER: SNAPSHOTS, HISTORY_DIR: HISTORY_DIR}.get(parts[1], OTHER), len(parts)


Names = dict[Path | str, set[str]]
"""What snapshots name: paths, and first digits of fingerprints for measurements -> by whom."""


def add_names(names: Names, store: Path, evaluation: Evaluation) -> None:
    """Add what an evaluation names."""
    for entry in (*evaluation.entries, *evaluation.rankings):
        for name in (store / entry.path, entry.fingerprint[:16]):
            names.setdefault(name, set()).add(evaluation.experiment)


def named_by(names: Names, item: Item) -> set[str]:
    """Return the experiments that name an item."""
    return names.get(item.path.name[:16] if item.kind == MEASUREMENTS else item.path, set())


def snapshots(store: Path) -> Iterator[tuple[Path, Evaluation]]:
    """Yield all snapshots with the folders of their experiments, of each the oldest first."""
    for root in stored_experiments(store):
        for name in snapshot_ids(root):
            yield root, read_evaluation(snapshot_file(root, name))


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
    """
    now = now or datetime.now(UTC)
    store = settings.store
    needed: Names = {}
    gone: Names = {}
    outdated: set[Path] = set()
    for root, evaluation in snapshots(store):
        began = datetime.fromisoformat(evaluation.started)
        is_old = older_than is not None and began < now - older_than
        pinned = {pointed(root / name) for name in (CURRENT, ANCHOR)}
        if is_old and experiment in (None, root.name) and evaluation.evaluation_id not in pinned:
            outdated.add(snapshot_file(root, evaluation.evaluation_id))
            add_names(gone, store, evaluation)
        else:
            add_names(needed, store, evaluation)
    garbage: list[Item] = []
    for item in items(settings):
        written = datetime.fromtimestamp(item.modified / 1e9, UTC)
        if item.path in outdated:
            garbage.insert(0, replace(item, reason="older"))
        elif item.is_cached:
            if cache_age is not None and written < now - cache_age:
                garbage.append(replace(item, reason="older"))
        elif item.kind in (SNAPSHOTS, HISTORY_DIR, OTHER) or named_by(needed, item):
            continue
        elif owners := named_by(gone, item):
            by = ", ".join(sorted(owners))
            garbage.append(replace(item, experiment=by, reason="only older name it"))
        elif orphans and experiment in (None, item.experiment) and written < now - SPARED:
            reason = "never finished" if item.kind == TEMPORARY else "no snapshot names it"
            garbage.append(replace(item, reason=reason))
    return garbage
