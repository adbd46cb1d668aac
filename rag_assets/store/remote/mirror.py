"""The working copies that a process uses, found by any path in one: nobody passes them on.

Small files are mirrored: what is done to them here is done to the remote store. Of a local store,
nothing that speaks to a remote one is imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from rag_assets.errors import StoreError
from rag_assets.store.atomic import MANIFEST, write_text
from rag_assets.store.remote.address import Address

if TYPE_CHECKING:
    from rag_assets.store.remote.working_copy import WorkingCopy

MARKER = "rag_assets_remote.json"
"""The file in a working copy that says where its originals lie; a name that nobody else uses."""


def make_working_copy(address: Address, root: Path) -> None:
    """Make a folder the working copy of a remote store; it is so already where it has the marker.

    Raises:
        StoreError: the folder cannot be written.
    """
    marker = root / MARKER
    if not marker.is_file():
        fields = {"url": address.url, "endpoint": address.endpoint}
        write_text(marker, json.dumps(fields, indent=1))


def working_copy_of(path: Path) -> WorkingCopy | None:
    """Return the working copy in which a path lies; None: its store is local.

    Raises:
        StoreError: it is not known what it is a copy of.
    """
    for folder in (path, *path.parents):
        # No Path, which costs more than the question: it is asked of every missing artifact.
        if os.path.isfile(f"{folder}/{MARKER}"):  # noqa: PTH113
            with _opening:
                if folder not in _opened:
                    _opened[folder] = _open(folder)
                return _opened[folder]
    return None


def folder_manifest(folder: Path) -> bytes:
    """Return the manifest of an artifact that is a folder, which need not be here.

    Raises:
        OSError: there is none that can be read.
        StoreError: the remote store cannot be used.
    """
    file = folder / MANIFEST
    copy = None if file.is_file() else working_copy_of(folder)
    return file.read_bytes() if copy is None else copy.manifest(folder) or b""


def mirror(path: Path) -> None:
    """Do to the remote store, if there is one, what was done to a small file: write or delete it.

    For files whose content follows from their name, whichever machine writes them; others are
    written by :func:`write_shared`.

    Raises:
        StoreError: the remote store cannot be used.
    """
    copy = working_copy_of(path)
    if copy is None:
        return
    if path.exists():
        copy.put([path])
    else:
        copy.objects.delete(copy.name(path))


def write_shared(path: Path, text: str, merged: Callable[[bytes | None], str]) -> str:
    """Write a small file that other machines write too, to the remote store first if there is one.

    Args:
        path: of the file.
        text: what is to be in it, if there is no remote store.
        merged: given what the remote store has (None: nothing), returns what is to be there.

    Returns:
        What was written.

    Raises:
        StoreError: the file or the remote store cannot be written; or ``merged`` raised it.
    """
    copy = working_copy_of(path)
    if copy is not None:
        text = (copy.merge(path, lambda there: merged(there).encode()) or b"").decode()
    write_text(path, text)
    return text


_opened: dict[Path, WorkingCopy] = {}
"""One object a folder in a process: all who write into it note so in one place."""

_opening = Lock()


def _open(folder: Path) -> WorkingCopy:
    marker = folder / MARKER
    try:
        fields = json.loads(marker.read_text(encoding="utf-8"))
        address = Address.of(fields["url"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{marker}: is not readable ({error}); delete it") from error
    if address is None:
        raise StoreError(f"{marker}: `url` is not an address; delete it")
    from rag_assets.store.remote.objects import Objects
    from rag_assets.store.remote.working_copy import WorkingCopy

    return WorkingCopy(folder, Objects(Address(address.bucket, address.prefix, fields["endpoint"])))


def shown_store(store: Path) -> str:
    """Return how messages name a store: by its address, where it is a remote one."""
    copy = working_copy_of(store)
    return str(store) if copy is None else copy.objects.address.url
