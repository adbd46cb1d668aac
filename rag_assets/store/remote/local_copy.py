"""The local copy of a remote store: fetches what is missing, sends what is new, then the pointer.

Everything is computed and read in the copy, a folder as every store is one; names are the same on
both sides. Artifacts, snapshots, rows of the history and segments of caches are immutable and named
by what they are, so a name that is there is never sent again. Small records (pointers, numbers of
attempts) change: they are written there first, on the condition that nobody else did meanwhile.

All that is there is listed once when a store is opened, and when an evaluation begins. What the
copy had of it before and is not there any more was removed by another machine, and is removed here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from rag_assets.errors import StoreError
from rag_assets.store.atomic import (
    MANIFEST,
    MANIFESTS_DIR,
    TABLE,
    TEMPORARY_MARK,
    atomic_directory,
    manifest_file,
    remove,
    remove_below,
    write_text,
)
from rag_assets.store.remote.objects import ABSENT, ANY, Listed, Objects, each

OBJECTS = "objects"
SHARED = (OBJECTS, "measurements", "cache", "_leases")
"""Folders that belong to no experiment; none of them is fetched as a whole."""

_COPIES = "copies.json"
"""In the copy alone: the names of what it has of the remote store, each with its tag."""

POINTERS = ("current", "anchor")
"""In the folder of an experiment: the ids of two evaluations."""

_TRIES = 10


class LocalCopy:
    """A folder, and the remote store that it is a copy of a part of.

    Every method raises :class:`StoreError` where the remote store or the folder cannot be used.
    """

    def __init__(self, folder: Path, objects: Objects) -> None:
        """Bind a folder to the objects; nothing is asked yet."""
        self.folder = folder
        self.objects = objects
        self.listing: dict[str, Listed] = {}
        self._damaged: set[Path] = set()
        self._written: set[Path] = set()

    def name(self, path: Path) -> str:
        """Return the name of an object by its path here.

        Raises:
            StoreError: whoever wrote it into the store leads out of the folder.
        """
        if ".." in path.parts or not path.is_relative_to(self.folder):
            where = self.objects.address.url
            raise StoreError(f"the store {where} holds a name that leads out of it: {path}")
        return path.relative_to(self.folder).as_posix()

    def refresh(self) -> None:
        """List all that is there, and remove here what other machines removed."""
        copies = self._copies()  # before the listing: what is sent meanwhile is in neither
        folders = [f"{OBJECTS}/{asset}" for asset in self.objects.folders(OBJECTS)]
        folders += [n for n in self.objects.folders() if n not in (OBJECTS, "_leases")]
        parts_listed = each(self.objects.listed, folders)
        self.listing = {name: one for part in parts_listed for name, one in part.items()}
        gone = [self.folder / name for name in sorted(copies.keys() - self.listing.keys())]
        remove_below(self.folder, (p.parent if p.name == MANIFEST else p for p in gone))
        for file in (self.folder / MANIFESTS_DIR).glob("*/*.json"):
            if f"{OBJECTS}/{file.parent.name}/{file.stem}/{MANIFEST}" not in self.listing:
                remove(file)
        here = {
            name: one.tag for name, one in self.listing.items() if (self.folder / name).exists()
        }
        # Of what changes, the tag is that of what was fetched.
        self._keep_copies({name: copies.get(name, tag) for name, tag in here.items()})

    def pull(self, experiments: Collection[str] = ()) -> list[str]:
        """Refresh, and fetch the records of experiments: all that is in their own folders.

        Args:
            experiments: their names; all when empty.

        Returns:
            Their names.
        """
        chosen = list(experiments) or sorted({*self.objects.folders()} - {*SHARED})
        # Read before all is listed, and written after that came: a pointer names a part of it.
        names = [f"{experiment}/{name}" for experiment in chosen for name in POINTERS]
        pointers = dict(zip(names, each(self.objects.find, names), strict=True))
        self.refresh()
        copies = self._copies()
        new = [
            name
            for name, listed in self.listing.items()
            if name.partition("/")[0] in chosen and name not in pointers
            if copies.get(name) != listed.tag or not (self.folder / name).exists()
        ]
        self._fetch(new)
        for name, stored in pointers.items():
            if stored is not None and copies.get(name) != stored.tag:
                text = stored.content.decode("utf-8", "replace")
                write_text(self.folder / name, text, durable=False)
                self._keep_copies({**self._copies(), name: stored.tag})
        return chosen

    def fetch(self, folder: str, starts: Collection[str] = ()) -> None:
        """Fetch the files below a folder that are not here, by the last listing.

        Args:
            folder: its name; empty: all.
            starts: only files whose names begin so, in 16 characters; all when empty.
        """
        missing = [
            name
            for name in self.listing
            if name.startswith(f"{folder}/" if folder else "")
            and (not starts or name.rpartition("/")[2][:16] in starts)
            and not (self.folder / name).exists()
        ]
        self._fetch(missing)

    def _fetch(self, names: Collection[str]) -> None:
        each(lambda name: self.objects.fetch(name, self.folder / name), names)
        self._keep_copies({**self._copies(), **{name: self.listing[name].tag for name in names}})

    def fetch_entries(self, paths: Iterable[Path]) -> None:
        """Fetch artifacts: tables, and of folders the manifests alone."""
        missing = [path for path in dict.fromkeys(paths) if not (path / MANIFEST).is_file()]
        each(self._fetch_entry, missing)

    def _fetch_entry(self, path: Path) -> None:
        manifest = self.manifest(path)
        if manifest is not None and f'"{TABLE}"'.encode() in manifest:
            self.fetch_artifact(path)

    def has(self, path: Path) -> bool:
        """Return whether an artifact is there, and not known to be damaged."""
        return path not in self._damaged and f"{self.name(path)}/{MANIFEST}" in self.listing

    def names(self, folder: Path) -> set[str]:
        """Return the names of what is there in a folder."""
        start = f"{self.name(folder)}/"
        return {n[len(start) :].partition("/")[0] for n in self.listing if n.startswith(start)}

    def manifest(self, path: Path) -> bytes | None:
        """Return the manifest of an artifact that is there, and keep it; None: it is not."""
        content = self.objects.read(f"{self.name(path)}/{MANIFEST}")
        if content is not None:
            write_text(manifest_file(path), content.decode("utf-8", "replace"), durable=False)
        return content

    def fetch_artifact(self, path: Path) -> bool:
        """Fetch an artifact with all its files; return whether it is here then."""
        if (path / MANIFEST).is_file():
            return True
        manifest = self.manifest(path) or b""
        try:
            files = [str(file) for file in json.loads(manifest)["files"]]
        except (ValueError, TypeError, KeyError):
            return False
        remove(path)  # the rest of one
        with atomic_directory(path) as temporary:
            names = [(self.name(path / file), temporary / file) for file in files]
            is_whole = all(each(lambda pair: self.objects.fetch(*pair), names))
            (temporary / MANIFEST).write_bytes(manifest)
        if not is_whole:
            remove(path)
        return is_whole

    def note_written(self, path: Path) -> None:
        """Remember an artifact that was written here; :meth:`send_new` sends it."""
        self._written.add(path)

    def note_damaged(self, path: Path) -> None:
        """Remember that what is there is not what was written: the next one takes its place."""
        self._damaged.add(path)

    def send_new(self, artifacts: Iterable[Path] = ()) -> None:
        """Send artifacts, what was noted, and what caches and measurements grew by.

        Nothing refers to any of it yet, so the order does not matter.
        """
        paths = [path for path in {*artifacts, *self._written} if path.exists()]
        files = [file for name in ("cache", "measurements") for file in _files(self.folder / name)]
        self.send([*(p for p in paths if not self.has(p)), *files])
        self._written.clear()

    def send(self, paths: Iterable[Path]) -> None:
        """Send artifacts and immutable files that are not there; all keep what was sent first."""
        new = [path for path in paths if self.name(path) not in self.listing]
        for path, is_first in zip(new, each(self._send, new), strict=True):
            self._damaged.discard(path)
            if path.is_dir():
                if not is_first:
                    remove(path)
                    self.fetch_artifact(path)
                files = [self.name(file) for file in _files(path)]
            else:
                if not is_first:
                    self.objects.fetch(self.name(path), path)
                files = [self.name(path)]
            self.listing.update(dict.fromkeys(files, Listed(0, time.time_ns())))
        if new:
            sent = {n: one.tag for n, one in self.listing.items() if (self.folder / n).exists()}
            self._keep_copies({**sent, **self._copies()})

    def _send(self, path: Path) -> bool:
        """Send one; return whether what is there now is of this machine.

        The manifest of an artifact is sent last. Files without a manifest are the rest of an upload
        that was interrupted, and are overwritten; whose file another machine so overwrote leaves
        the manifest to that one, so that all files are of one.
        """
        expected = ANY if path in self._damaged else ABSENT
        if not path.is_dir():
            return self.objects.send(path, self.name(path), expected)
        manifest = path / MANIFEST
        files = [file for file in _files(path) if file != manifest]
        refused = [f for f in files if not self.objects.send(f, self.name(f), expected)]
        if refused:
            if self.objects.read(self.name(manifest)) is not None:
                return False
            expected = ANY
        for file in refused:
            self.objects.send(file, self.name(file))
        return self.objects.send(manifest, self.name(manifest), expected)

    def merge(self, path: Path, merged: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Write a record without losing what another machine writes, and return what is there.

        Args:
            path: of the file that is a copy of it.
            merged: given what is there, returns what is to be there; None: as it is.
        """
        name = self.name(path)
        for _ in range(_TRIES):
            present = self.objects.find(name)
            there = None if present is None else present.content
            content = merged(there)
            if content is None or content == there:
                return there
            tag = self.objects.write(name, content, ABSENT if present is None else present.tag)
            if tag is not None:
                self.listing[name] = Listed(len(content), time.time_ns(), tag)
                self._keep_copies({**self._copies(), name: tag})
                return content
        raise StoreError(
            f"{self.objects.address.url}/{name} is changed by other machines all the time; "
            "run the command again"
        )

    def delete(self, paths: Iterable[Path]) -> None:
        """Delete files and artifacts there."""
        doomed = {self.name(path) for path in paths}
        names = [n for n in self.listing if n in doomed or not doomed.isdisjoint(_folders(n))]
        # No snapshot then names what is gone, and a folder without its manifest is no artifact.
        first = [name for name in names if name.endswith(".json")]
        each(self.objects.delete, first)
        each(self.objects.delete, [name for name in names if not name.endswith(".json")])
        for name in names:
            del self.listing[name]

    def _copies(self) -> dict[str, str]:
        try:
            return dict(json.loads((self.folder / _COPIES).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def _keep_copies(self, copies: dict[str, str]) -> None:
        if copies != self._copies():
            write_text(self.folder / _COPIES, json.dumps(copies), durable=False)


def _files(folder: Path) -> list[Path]:
    found = (file for file in folder.rglob("*") if TEMPORARY_MARK not in file.as_posix())
    return [file for file in found if file.is_file()]


def _folders(name: str) -> set[str]:
    parts = name.split("/")
    return {"/".join(parts[:n]) for n in range(1, len(parts))}
