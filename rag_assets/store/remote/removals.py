"""What was removed from a remote store, as a list that every working copy follows once.

Without it, a working copy would send again what another one removed: it could not be told from
what was never sent.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from rag_assets.store.atomic import remove, write_text
from rag_assets.store.locks import LEASES_DIR
from rag_assets.store.remote.mirror import working_copy_of
from rag_assets.store.remote.objects import Listed, Objects
from rag_assets.store.remote.working_copy import WorkingCopy

REMOVED_DIR = "_removed"
"""Of the lists, in the remote store: one JSON file of names each. No experiment has its name."""

_SEEN = "removed_seen.json"
"""In the working copy: the lists that it followed, or that are older than it."""


def apply_removed(copy: WorkingCopy) -> None:
    """Remove from a working copy what was removed from the remote store since the last time.

    What was made again since then is there, and is fetched when it is needed.

    Raises:
        StoreError: the remote store cannot be used, or a file cannot be removed.
    """
    seen = _seen(copy)
    lists = sorted(copy.objects.listed(REMOVED_DIR))
    new = [name for name in lists if name not in seen] if seen is not None else []
    if new:
        contents = Objects.each(copy.objects.read, new)
        names = {name for content in contents for name in json.loads(content or b"[]")}
        _remove(copy.root, [copy.checked(copy.root / name) for name in names])
    if seen is None or new:
        write_text(copy.root / _SEEN, json.dumps(lists), durable=False)


def stored_files(folder: Path) -> dict[Path, Listed]:
    """Return all files, and empty folders, below a folder of a store: here, or in the remote one.

    Raises:
        StoreError: the remote store cannot be used.
    """
    files = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # gone since it was listed
            status = path.stat()
            if path.is_file() or not any(path.iterdir()):
                files[path] = Listed(status.st_size, status.st_mtime_ns)
    copy = working_copy_of(folder)
    there = copy.objects.listed(copy.name(folder)) if copy is not None else {}
    return files | {copy.root / name: one for name, one in there.items() if copy is not None}


def fetch_all(store: Path, *folders: str) -> None:
    """Bring everything of some folders of a store; of a local one, nothing.

    Args:
        store: the store.
        folders: names of folders in it; none: all.

    Raises:
        StoreError: the remote store cannot be used.
    """
    copy = working_copy_of(store)
    if copy is None:
        return
    apply_removed(copy)
    chosen = folders or [
        name for name in copy.objects.folders() if name not in (REMOVED_DIR, LEASES_DIR)
    ]
    there = [name for folder in chosen for name in copy.objects.listed(folder)]
    copy.fetch(copy.root / name for name in there)


def remove_everywhere(store: Path, paths: Iterable[Path]) -> None:
    """Remove files and folders of a store: here, in the order given, and in the remote one.

    Raises:
        StoreError: the store cannot be written.
    """
    doomed = list(dict.fromkeys(paths))
    copy = working_copy_of(store)
    if copy is not None and doomed:
        names = {copy.name(path) for path in doomed}
        _remove_there(copy, [n for n in copy.objects.listed("") if _is_in(n, names)])
    _remove(store, doomed)


def _is_in(name: str, names: set[str]) -> bool:
    return name in names or any(str(one) in names for one in PurePosixPath(name).parents)


def _remove_there(copy: WorkingCopy, names: Collection[str]) -> None:
    if not names:
        return
    # The list comes first: a working copy that has not read it would send again what is gone.
    name = f"{REMOVED_DIR}/{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.json"
    copy.objects.write(name, json.dumps(sorted(names)).encode())
    # No snapshot then names what is gone, and a folder without its manifest is no artifact.
    first = {name for name in names if name.endswith(".json")}
    Objects.each(copy.objects.delete, first)
    Objects.each(copy.objects.delete, [name for name in names if name not in first])
    copy.forget_listings()


def _remove(root: Path, paths: Iterable[Path]) -> None:
    for path in paths:
        remove(path)
        for folder in path.parents:
            if folder == root:
                break
            with suppress(OSError):  # not empty
                folder.rmdir()


def _seen(copy: WorkingCopy) -> set[str] | None:
    """Return the lists that are done with; None: this is a new working copy, and holds nothing."""
    try:
        return set(json.loads((copy.root / _SEEN).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
