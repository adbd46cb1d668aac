"""Brings what the readers of an experiment need from a remote store, and sends evaluations to it.

Of a local store there is nothing to bring or to send. Records are brought each time: the pointers,
snapshots, rows of the history, and the small files that decide what is computed. Artifacts are
brought when something reads them: all tables that an evaluation names at once, since its readers
open them by their paths; an index when it is searched.

No reader ever sees a part of an evaluation: first what it names is sent, then its row of the
history, then its snapshot, and the pointer ``current`` last. An evaluation whose sending was
interrupted is sent by the next one, before that.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.experiment.names import RESERVED
from rag_assets.store.atomic import TABLE, TEMPORARY_MARK, remove, write_text
from rag_assets.store.content_cache import CACHE
from rag_assets.store.remote.mirror import working_copy_of

if TYPE_CHECKING:
    from rag_assets.store.remote.working_copy import WorkingCopy

_log = logging.getLogger("rag_assets")

SNAPSHOTS = "evaluations"
HISTORY = "history"
RANKINGS = "rankings"
"""The asset, and where snapshots name what they have of it."""
POINTERS = ("current", "anchor")
ATTEMPTS = "attempts"
REVISIONS = "revisions"
FAILED_CHECKS = "failed_checks"
LOOKS = "looks"

_BROUGHT = "brought.json"
"""In the working copy: experiment -> the evaluation whose measurements were brought last."""


def fetch_records(root: Path) -> None:
    """Bring what is small and says what there is, but for the history.

    Raises:
        StoreError: the remote store cannot be used.
    """
    copy = working_copy_of(root)
    if copy is None:
        return
    from rag_assets.store.remote.removals import apply_removed

    copy.forget_listings()
    apply_removed(copy)
    # Read before the snapshots are listed, and written after they came: it names one of them.
    contents = copy.objects.each(lambda name: copy.objects.read(copy.name(root / name)), POINTERS)
    folders = [root / name for name in (SNAPSHOTS, ATTEMPTS, REVISIONS, FAILED_CHECKS, LOOKS)]
    snapshots, attempts, revisions, failed, looks = copy.objects.each(
        lambda folder: _there(copy, folder), folders
    )
    copy.fetch(snapshots)
    # Few, and their content changes: S3 knows the second of a change, which is not enough.
    copy.fetch([*attempts, *revisions, *looks], anew=True)
    # The same failures here as there: one that passes now was deleted by who saw it.
    for path in set((root / FAILED_CHECKS).glob("*.json")) - set(failed):
        remove(path)
    copy.fetch(failed)
    for name, content in zip(POINTERS, contents, strict=True):
        text = (content or b"").decode("utf-8", "replace")
        if text and text != _text(root / name):
            write_text(root / name, text, durable=False)


def fetch_current(root: Path) -> None:
    """Bring the records, and the tables that the current evaluation names.

    Raises:
        StoreError: the remote store cannot be used.
    """
    fetch_records(root)
    fetch_pointed(root)


def fetch_pointed(root: Path) -> None:
    """Bring the tables of the evaluation that is the current one as far as is known here.

    Raises:
        StoreError: the remote store cannot be used.
    """
    current = _text(root / POINTERS[0])
    if current:
        fetch_evaluation(root, current)


def fetch_history(root: Path, locks: Path | None) -> None:
    """Bring the rows that are not here: first the files of many, then those of single ones.

    Raises:
        StoreError: the remote store cannot be used, or a file of the history cannot be read.
    """
    copy = working_copy_of(root)
    there = _there(copy, root / HISTORY) if copy is not None else []
    if copy is not None and there:
        from rag_assets.pipeline.history_files import HistoryFiles, first_id, is_compacted

        files = HistoryFiles(root, locks)
        copy.fetch(filter(is_compacted, there))
        ids = files.ids()
        copy.fetch(path for path in there if not is_compacted(path) and first_id(path) not in ids)
        files.compact()


def fetch_evaluation(root: Path, evaluation_id: str) -> None:
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
    copy.objects.each(copy.fetch_artifact, {root.parent / one["path"] for one in read})
    brought = read_json(copy.root / _BROUGHT)
    if brought.get(root.name) != evaluation_id:
        _fetch_measurements(copy, root, {entry["fingerprint"][:16] for entry in entries})
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


def named(snapshot: Path) -> list[dict[str, Any]]:
    """Return the entries of a snapshot, rankings too; none where it cannot be read."""
    content = read_json(snapshot)
    entries = [content.get(name, []) for name in ("entries", RANKINGS)]
    return [one for part in entries if isinstance(part, list) for one in part]


def _is_table(entry: dict[str, Any]) -> bool:
    return TABLE in entry.get("files", {})


def _there(copy: WorkingCopy, folder: Path) -> list[Path]:
    """Return what lies in a folder of the remote store now, as the paths that it has here."""
    return [copy.root / name for name in copy.objects.listed(copy.name(folder))]


def _fetch_measurements(copy: WorkingCopy, root: Path, fingerprints: set[str]) -> None:
    there = _there(copy, root.parent / MEASUREMENTS)
    copy.fetch(path for path in there if path.name[:16] in fingerprints)


def pointer_text(content: bytes | None) -> str | None:
    """Return the id that a pointer holds; None: it holds none."""
    text = (content or b"").strip().decode("ascii", "replace")
    return text if re.fullmatch(r"[\w.-]+", text, re.ASCII) else None


def read_json(file: Path) -> dict[str, Any]:
    """Return the object that a file of JSON holds; an empty one where it cannot be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""


def publish(root: Path, locks: Path, evaluation_id: str, *, computed: int) -> str:
    """Send an evaluation and all that were not sent before, and make it the current one.

    If another machine has made one current that ended later, that one stays.

    Args:
        root: the experiment's folder in the store; if that is local, nothing is done.
        locks: folder of lock files.
        evaluation_id: the evaluation, of which everything but the pointer is written.
        computed: how many partitions were computed; with none, no cache has grown.

    Returns:
        The evaluation that is the current one then.

    Raises:
        StoreError: the remote store cannot be used; what came to it is whole, and not in use.
    """
    copy = working_copy_of(root)
    if copy is None:
        return evaluation_id
    copy.flush()
    if computed:
        copy.send_missing(copy.root / CACHE)
    unsent, sent = _snapshots(copy, root)
    _send_named(copy, root, unsent, sent)
    _send_rows(copy, root, locks)
    copy.put(unsent)
    current = _point(copy, root, evaluation_id)
    if current != evaluation_id:
        _log.warning(
            "%s: evaluation %s is in the history; %s, of another machine, ended later and is the "
            "current one",
            root.name,
            evaluation_id,
            current,
        )
    return current


def _point(copy: WorkingCopy, root: Path, evaluation_id: str) -> str:
    """Make an evaluation the current one, or leave it at one that ended later; return its id."""
    own = _ended(root, evaluation_id)

    def later(there: bytes | None) -> bytes | None:
        name = pointer_text(there)
        if name is not None:
            copy.fetch([root / SNAPSHOTS / f"{name}.json"])
        return None if name is not None and _ended(root, name) > own else evaluation_id.encode()

    return pointer_text(copy.merge(root / POINTERS[0], later)) or evaluation_id


def _ended(root: Path, evaluation_id: str) -> tuple[str, str]:
    """Return what orders evaluations by their end; one whose snapshot is gone is the oldest."""
    ended = read_json(root / SNAPSHOTS / f"{evaluation_id}.json").get("finished")
    return (str(ended), evaluation_id) if ended else ("", "")


def _snapshots(copy: WorkingCopy, root: Path) -> tuple[list[Path], list[Path]]:
    """Return the snapshots that are here alone, the oldest first, and those that are there too."""
    folder = root / SNAPSHOTS
    there = copy.objects.listed(copy.name(folder))
    here = [file for file in sorted(folder.glob("*.json")) if TEMPORARY_MARK not in file.name]
    sent = [file for file in here if copy.name(file) in there]
    return [file for file in here if file not in sent], sent


def _send_named(
    copy: WorkingCopy, root: Path, unsent: Iterable[Path], sent: Sequence[Path]
) -> None:
    """Send what snapshots name and is not there: of an interrupted evaluation, above all."""
    entries = {entry["path"]: entry for file in unsent for entry in named(file)}
    # All that a snapshot names was there before it.
    for entry in named(sent[-1]) if sent else ():
        entries.pop(entry["path"], None)
    paths = [copy.root / path for path in entries]
    copy.objects.each(copy.listing, {path.parent for path in paths})
    new = [path for path in paths if not copy.has(path)]
    # What only the remote store has need not be sent; what is nowhere cannot.
    copy.send(path for path in new if path.exists())


def _send_rows(copy: WorkingCopy, root: Path, locks: Path) -> None:
    """Send the files of the history that are not there: the same rows have the same name."""
    from rag_assets.pipeline.history_files import HistoryFiles
    from rag_assets.store.remote.objects import ABSENT

    there = copy.objects.listed(copy.name(root / HISTORY))
    new = [file for file in HistoryFiles(root, locks).paths() if copy.name(file) not in there]
    copy.objects.each(lambda file: copy.objects.send(file, copy.name(file), ABSENT), new)
