"""The local working copy of a remote store: a folder that knows where its originals lie.

Artifacts and segments of caches are immutable and named by what they are, so a name that is there
is never sent again, and which of two machines sends it does not matter. What was written here is
noted and sent by :meth:`WorkingCopy.flush`; nothing refers to it before a snapshot is sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from rag_assets.errors import StoreError
from rag_assets.store.atomic import MANIFEST, TEMPORARY_MARK, atomic_directory, remove
from rag_assets.store.remote.objects import ABSENT, ANY, Objects

_TRIES = 10


class WorkingCopy:
    """A folder, and the remote store that it is a copy of a part of."""

    def __init__(self, root: Path, objects: Objects) -> None:
        """Bind a folder to the objects; nothing is asked yet. ``mirror.py`` gives them."""
        self.root = root
        self.objects = objects
        self._noted: dict[Path, bool] = {}
        self._damaged: set[Path] = set()
        self._manifests: dict[Path, bytes | None] = {}
        self._listings: dict[str, set[str]] = {}
        self._lock = Lock()

    def name(self, path: Path) -> str:
        """Return the name of the object that a file is a copy of.

        Raises:
            StoreError: the path leads out of the folder.
        """
        return self.checked(path).relative_to(self.root).as_posix()

    def checked(self, path: Path) -> Path:
        """Return a path; who writes into a store names its objects, so it may lead anywhere.

        Raises:
            StoreError: it leads out of the folder.
        """
        if ".." in path.parts or not path.is_relative_to(self.root):
            where = self.objects.address.url
            raise StoreError(f"the store {where} holds a name that leads out of it: {path}")
        return path

    def forget_listings(self) -> None:
        """Ask again what is there."""
        with self._lock:
            self._listings.clear()

    def listing(self, folder: Path) -> set[str]:
        """Return the names below a folder of the remote store, asked for once."""
        name = self.name(folder)
        with self._lock:
            names = self._listings.get(name)
        if names is None:
            names = set(self.objects.listed(name))
            with self._lock:
                self._listings[name] = names
        return names

    def has(self, path: Path) -> bool:
        """Return whether an artifact is there, and not known to be damaged."""
        return path not in self._damaged and f"{self.name(path)}/{MANIFEST}" in self.listing(
            path.parent
        )

    def fetch(self, paths: Iterable[Path], *, anew: bool = False) -> None:
        """Fetch files that are not here. One that is nowhere is left out.

        Args:
            paths: the files.
            anew: fetch also those that are here.

        Raises:
            StoreError: the remote store cannot be used, or the folder cannot be written.
        """
        missing = [path for path in dict.fromkeys(paths) if anew or not path.exists()]
        Objects.each(lambda path: self.objects.fetch(self.name(path), path), missing)

    def manifest(self, artifact: Path) -> bytes | None:
        """Return the manifest of an artifact that is not here; None: it is not there either."""
        if self._manifests.get(artifact) is None:
            self._manifests[artifact] = self.objects.read(f"{self.name(artifact)}/{MANIFEST}")
        return self._manifests[artifact]

    def fetch_artifact(self, path: Path) -> bool:
        """Fetch an artifact with its files, and return whether it is here then.

        Raises:
            StoreError: the remote store cannot be used, or the folder cannot be written.
        """
        if (path / MANIFEST).is_file():
            return True
        manifest = self.manifest(path) or b""
        try:
            files = [str(file) for file in json.loads(manifest)["files"]]
        except (ValueError, TypeError, KeyError):
            return False
        with atomic_directory(path) as temporary:
            came = [self.objects.fetch(self.name(path / one), temporary / one) for one in files]
            (temporary / MANIFEST).write_bytes(manifest)
            if path.is_dir() and not (path / MANIFEST).is_file():
                remove(path)  # the rest of one
        if not all(came):
            remove(path)
        return all(came)

    def note(self, path: Path, *, immutable: bool = True) -> None:
        """Remember a file or folder that was written here, to send it.

        Args:
            path: of it.
            immutable: whether what is there under its name is as good.
        """
        with self._lock:
            self._noted[path] = immutable

    def note_damaged(self, path: Path) -> None:
        """Remember that what is there is not what was written: the next one takes its place."""
        with self._lock:
            self._damaged.add(path)

    def flush(self) -> None:
        """Send what was noted, in whatever order: nothing refers to it yet.

        Raises:
            StoreError: the remote store cannot be used; what is left is sent the next time.
        """
        with self._lock:
            noted = dict(self._noted)
        here = {path: immutable for path, immutable in noted.items() if path.exists()}
        self.put(path for path, immutable in here.items() if not immutable)
        self.send(path for path, immutable in here.items() if immutable)
        with self._lock:
            for path in noted:
                self._noted.pop(path, None)

    def send(self, paths: Iterable[Path]) -> None:
        """Send artifacts and files that never change; of two, all keep what was sent first.

        Raises:
            StoreError: the remote store cannot be used.
        """
        unique = list(dict.fromkeys(paths))
        first = Objects.each(self._send, unique)
        with self._lock:
            for path in unique:
                self._damaged.discard(path)
                names = self._listings.get(self.name(path.parent))
                if names is not None:
                    names.add(self.name(path / MANIFEST) if path.is_dir() else self.name(path))
        for path in (path for path, is_first in zip(unique, first, strict=True) if not is_first):
            if path.is_dir():
                remove(path)
                self._manifests.pop(path, None)
                self.fetch_artifact(path)
            else:
                self.objects.fetch(self.name(path), path)

    def _send(self, path: Path) -> bool:
        """Send one; return whether what is there now is of this machine.

        The manifest of an artifact is sent last. Files without a manifest are the rest of an upload
        that was interrupted, and are overwritten; whose file another machine so overwrote leaves
        the manifest to that one, so that all files are of one.
        """
        expected = ANY if path in self._damaged else ABSENT
        if not path.is_dir():
            return self.objects.send(path, self.name(path), expected)
        files = [file for file in _files(path) if file != path / MANIFEST]
        refused = [f for f in files if not self.objects.send(f, self.name(f), expected)]
        manifest = path / MANIFEST
        if refused:
            if self.objects.read(self.name(manifest)) is not None:
                return False
            expected = ANY
        for file in refused:
            self.objects.send(file, self.name(file))
        return self.objects.send(manifest, self.name(manifest), expected)

    def put(self, paths: Iterable[Path]) -> None:
        """Send files in place of what is there.

        Raises:
            StoreError: the remote store cannot be used.
        """
        Objects.each(lambda path: self.objects.send(path, self.name(path)), paths)

    def send_missing(self, folder: Path) -> None:
        """Send the files below a folder that are not there.

        Raises:
            StoreError: the remote store cannot be used.
        """
        there = self.objects.listed(self.name(folder))
        files = (file for file in _files(folder) if TEMPORARY_MARK not in file.as_posix())
        self.put([file for file in files if self.name(file) not in there])

    def merge(self, path: Path, merged: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Overwrite a small object without losing what another machine writes meanwhile.

        Args:
            path: of the file that is a copy of it.
            merged: given what is there, returns what is to be there; None: as it is.

        Returns:
            What is there.

        Raises:
            StoreError: the remote store cannot be used, or others change the object all the time.
        """
        name = self.name(path)
        for _ in range(_TRIES):
            present = self.objects.find(name)
            there = None if present is None else present.content
            content = merged(there)
            if content is None or content == there:
                return there
            if self.objects.write(name, content, ABSENT if present is None else present.tag):
                return content
        raise StoreError(
            f"{self.objects.address.url}/{name} is changed by other machines all the time; "
            "run the command again"
        )


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]
