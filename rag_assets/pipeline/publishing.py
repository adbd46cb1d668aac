"""Sends an evaluation to a remote store, such that no reader ever sees a part of it.

First what it names, then its row of the history, then its snapshot, and the pointer ``current``
last. An evaluation whose sending was interrupted is sent by the next one, before that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.pipeline.history_files import FOLDER as HISTORY
from rag_assets.pipeline.history_files import HistoryFiles
from rag_assets.pipeline.remote_sync import POINTERS, SNAPSHOTS, named, pointer_text, read_json
from rag_assets.store.atomic import TEMPORARY_MARK
from rag_assets.store.cache_files import CACHE
from rag_assets.store.remote.mirror import working_copy_of
from rag_assets.store.remote.objects import ABSENT
from rag_assets.store.remote.working_copy import WorkingCopy

_log = logging.getLogger("rag_assets")


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
            copy.bring([root / SNAPSHOTS / f"{name}.json"])
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
    new = [path for path in paths if not copy.has(path, path.parent)]
    # What only the remote store has need not be sent; what is nowhere cannot.
    copy.send(path for path in new if path.exists())


def _send_rows(copy: WorkingCopy, root: Path, locks: Path) -> None:
    """Send the rows of the history that are not there, each as a file of its own."""
    there = {Path(name).stem for name in copy.objects.listed(copy.name(root / HISTORY))}
    # Without the metadata of the file that they come from: it may hold the checksum of that one.
    rows = HistoryFiles(root, locks).table().replace_schema_metadata()
    ids = rows.column("evaluation_id")
    new = rows.filter(pc.invert(pc.is_in(ids, pa.array(sorted(there), pa.string()))))
    with TemporaryDirectory() as folder:
        for number, name in enumerate(new.column("evaluation_id").to_pylist()):
            file = Path(folder) / f"{name}.parquet"
            pq.write_table(new.slice(number, 1).combine_chunks(), file, compression="zstd")
            # A row that came meanwhile is of the same snapshot.
            copy.objects.send(file, copy.name(root / HISTORY / file.name), ABSENT)
