"""What was removed from a remote store, as a list that every working copy follows once.

Without it, a working copy would send again what another one removed: it could not be told from
what was never sent.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag_assets.store.atomic import TEMPORARY_MARK, remove, write_text
from rag_assets.store.remote.objects import Objects
from rag_assets.store.remote.opened import working_copy_of
from rag_assets.store.remote.working_copy import WorkingCopy

FOLDER = "_removed"
"""Of the lists, in the remote store: one JSON file of names each. No experiment has its name."""

_SEEN = "removed_seen.json"
"""In the working copy: the lists that it followed, or that are older than it."""


def apply_removed(copy: WorkingCopy) -> None:
    """Remove from a working copy what was removed from the remote store since the last time.

    Raises:
        StoreError: the remote store cannot be used, or a file cannot be removed.
    """
    seen = _seen(copy)
    lists = sorted(copy.objects.listed(FOLDER))
    new = [name for name in lists if name not in seen] if seen is not None else []
    if new:
        contents = Objects.each(copy.objects.read, new)
        names = {name for content in contents for name in json.loads(content or b"[]")}
        here = [copy.name(copy.root / n) for n in names if (copy.root / n).is_file()]
        # What was made again since then is there, and stays.
        _remove(copy, set(here) - copy.objects.existing(here))
    if seen is None or new:
        write_text(copy.root / _SEEN, json.dumps(lists), durable=False)


@contextmanager
def whole(store: Path, *folders: str) -> Iterator[None]:
    """Bring everything of some folders of a store; what the block removes goes there too.

    With a local store this does nothing.

    Args:
        store: the store.
        folders: names of folders in it; none: all.

    Raises:
        StoreError: the remote store cannot be used.
    """
    copy = working_copy_of(store)
    if copy is None:
        yield
        return
    apply_removed(copy)
    chosen = folders or [name for name in copy.objects.folders() if name != FOLDER]
    there = {n: listed for name in chosen for n, listed in copy.objects.listed(name).items()}
    # Its age decides whether something is removed.
    missing = [(n, listed) for n, listed in there.items() if not (copy.root / n).exists()]
    Objects.each(
        lambda one: copy.objects.fetch(one[0], copy.root / one[0], one[1].modified), missing
    )
    before = {path for name in chosen for path in _files(copy.root / name)}
    yield
    after = {path for name in chosen for path in _files(copy.root / name)}
    # What takes the place of a file is there before that one goes.
    copy.put(sorted(after - before))
    _remove_there(copy, [name for name in there if not (copy.root / name).exists()])


def _remove_there(copy: WorkingCopy, names: Collection[str]) -> None:
    if not names:
        return
    # The list comes first: what it names and is still there stays everywhere.
    name = f"{FOLDER}/{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.json"
    copy.objects.write(name, json.dumps(sorted(names)).encode())
    # A folder without its manifest is no artifact, so half of one is never taken for it.
    first = [name for name in names if name.endswith("/manifest.json")]
    Objects.each(copy.objects.delete, first)
    Objects.each(copy.objects.delete, [name for name in names if name not in set(first)])
    copy.forget_listings()


def _remove(copy: WorkingCopy, names: Collection[str]) -> None:
    for name in names:
        path = copy.root / name
        remove(path)
        for folder in path.parents:
            if folder == copy.root:
                break
            with suppress(OSError):  # not empty
                folder.rmdir()


def _files(folder: Path) -> Iterator[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return (path for path in files if TEMPORARY_MARK not in path.as_posix())


def _seen(copy: WorkingCopy) -> set[str] | None:
    """Return the lists that are done with; None: this is a new working copy, and holds nothing."""
    try:
        return set(json.loads((copy.root / _SEEN).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
