"""Brings from a remote store what the readers of one experiment need; of a local one, nothing.

Records are brought each time: the pointers, snapshots, rows of the history, and the small files
that decide what is computed. Artifacts are brought when something reads them: all tables that an
evaluation names at once, since its readers open them by their paths; an index when it is searched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.experiment.names import RESERVED
from rag_assets.pipeline.history_files import FOLDER as HISTORY
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.atomic import remove, write_text
from rag_assets.store.remote.objects import Objects
from rag_assets.store.remote.opened import working_copy_of
from rag_assets.store.remote.removed import apply_removed
from rag_assets.store.remote.working_copy import TABLE, WorkingCopy

SNAPSHOTS = "evaluations"
RANKINGS = "rankings"
"""The asset, and where snapshots name what they have of it."""
POINTERS = ("current", "anchor")
ATTEMPTS = "attempts"
REVISIONS = "revisions"
FAILED_CHECKS = "failed_checks"

_BROUGHT = "brought.json"
"""In the working copy: experiment -> the evaluation whose measurements were brought last."""


def bring_records(root: Path) -> None:
    """Bring what is small and says what there is, but for the history.

    Raises:
        StoreError: the remote store cannot be used.
    """
    copy = working_copy_of(root)
    if copy is None:
        return
    copy.forget_listings()
    apply_removed(copy)
    # Read before the snapshots are listed, and written after they came: it names one of them.
    contents = Objects.each(lambda name: copy.objects.read(copy.name(root / name)), POINTERS)
    folders = [root / name for name in (SNAPSHOTS, ATTEMPTS, REVISIONS, FAILED_CHECKS)]
    snapshots, attempts, revisions, failed = Objects.each(
        lambda folder: _there(copy, folder), folders
    )
    copy.bring(snapshots)
    # Few, and their content changes: S3 knows the second of a change, which is not enough.
    copy.bring([*attempts, *revisions], anew=True)
    # The same failures here as there: one that passes now was deleted by who saw it.
    for path in set((root / FAILED_CHECKS).glob("*.json")) - set(failed):
        remove(path)
    copy.bring(failed)
    for name, content in zip(POINTERS, contents, strict=True):
        text = (content or b"").decode("utf-8", "replace")
        if text and text != _text(root / name):
            write_text(root / name, text, durable=False)


def bring_current(root: Path) -> None:
    """Bring the records, and the tables that the current evaluation names.

    Raises:
        StoreError: the remote store cannot be used.
    """
    bring_records(root)
    bring_pointed(root)


def bring_pointed(root: Path) -> None:
    """Bring the tables of the evaluation that is the current one as far as is known here.

    Raises:
        StoreError: the remote store cannot be used.
    """
    current = _text(root / POINTERS[0])
    if current:
        bring_named(root, current)


def bring_history(root: Path, locks: Path | None) -> None:
    """Bring the rows that are not here: here they may be gathered in one file, there never.

    Raises:
        StoreError: the remote store cannot be used, or a file of the history cannot be read.
    """
    copy = working_copy_of(root)
    there = _there(copy, root / HISTORY) if copy is not None else []
    if copy is not None and there:
        files = HistoryFiles(root, locks)
        known = files.ids()
        copy.bring(path for path in there if path.stem not in known)
        files.gather()  # a machine that is new here brings all, a file each


def bring_named(root: Path, evaluation_id: str) -> None:
    """Bring the tables that an evaluation names, and how long it took to make them.

    Raises:
        StoreError: the remote store cannot be used.
    """
    copy = working_copy_of(root)
    if copy is None:
        return
    entries = named(root / SNAPSHOTS / f"{evaluation_id}.json")
    # A ranking is brought when something is cut from it anew.
    read = [one for one in entries if one["asset"] != RANKINGS and _is_table(one)]
    copy.bring_tables(root.parent / one["path"] for one in read)
    brought = read_json(copy.root / _BROUGHT)
    if brought.get(root.name) != evaluation_id:
        _bring_measurements(copy, root, {entry["fingerprint"][:16] for entry in entries})
        text = json.dumps({**brought, root.name: evaluation_id})
        write_text(copy.root / _BROUGHT, text, durable=False)


def experiment_roots(store: Path) -> list[Path]:
    """Return the folders of all experiments of which anything is stored, evaluated or not.

    Raises:
        StoreError: the remote store cannot be used.
    """
    copy = working_copy_of(store)
    there = copy.objects.folders() if copy is not None else []
    here = [path.parent.name for kind in (SNAPSHOTS, HISTORY) for path in store.glob(f"*/{kind}")]
    names = {name for name in (*there, *here) if not name.startswith("_")} - RESERVED
    return sorted(store / name for name in names)


def bring_experiments(store: Path) -> None:
    """Bring the current evaluations of all experiments of a store; of a local one, nothing.

    Raises:
        StoreError: the remote store cannot be used.
    """
    for root in experiment_roots(store) if working_copy_of(store) is not None else []:
        bring_current(root)


def named(snapshot: Path) -> list[dict[str, Any]]:
    """Return the entries of a snapshot, rankings too; none where it cannot be read."""
    content = read_json(snapshot)
    entries = [content.get(name, []) for name in ("entries", RANKINGS)]
    return in_store(snapshot, [one for part in entries if isinstance(part, list) for one in part])


def in_store(snapshot: Path, entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return entries with paths in the store; older snapshots have them in the experiment's."""
    folder = snapshot.parents[1].name
    return [
        one if one["path"].startswith(f"{OBJECTS}/") else {**one, "path": f"{folder}/{one['path']}"}
        for one in entries
    ]


def _is_table(entry: dict[str, Any]) -> bool:
    return TABLE in entry.get("files", {}) or entry["path"].endswith(".parquet")


def _there(copy: WorkingCopy, folder: Path) -> list[Path]:
    """Return what lies in a folder of the remote store now, as the paths that it has here."""
    return [copy.root / name for name in copy.objects.listed(copy.name(folder))]


def _bring_measurements(copy: WorkingCopy, root: Path, fingerprints: set[str]) -> None:
    there = _there(copy, root.parent / MEASUREMENTS)
    copy.bring(path for path in there if path.name[:16] in fingerprints)


def pointer_text(content: bytes | None) -> str | None:
    """Return the id that a pointer holds; None: it holds none."""
    text = (content or b"").strip().decode("ascii", "replace")
    return text if re.fullmatch(r"[\w.-]+", text, re.ASCII) else None


def read_json(file: Path) -> dict[str, Any]:
    """Return the object that a file of JSON holds; an empty one where it cannot be read."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
