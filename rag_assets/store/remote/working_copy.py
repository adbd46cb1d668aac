"""The local working copy of a remote store: a folder that knows where its originals lie.

Artifacts and segments of caches are immutable and named by what they are, so a name that is there
is never sent again, and which of two machines sends it does not matter. What was written here is
noted and sent by :meth:`WorkingCopy.flush`; nothing refers to it before a snapshot is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from rag_assets.errors import StoreError
from rag_assets.store.atomic import (
    MANIFEST,
    TABLE,
    TEMPORARY_MARK,
    atomic_directory,
    remove,
)
from rag_assets.store.remote.objects import ABSENT, ANY, Listed, Objects

_TRIES = 10


class WorkingCopy:
    """A folder, and the remote store that it is a copy of a part of."""

    def __init__(self, root: Path, objects: Objects) -> None:
        """Bind a folder to the objects; nothing is asked yet. ``mirror.py`` gives them."""
        self.root = root
        self.objects = objects
        self._noted: dict[Path, bool] = {}
        self._damaged: set[Path] = set()
        self._sent: set[str] = set()
        self._manifests: dict[Path, bytes | None] = {}
        self._listings: dict[str, dict[str, Listed]] = {}
        self._lock = Lock()

    def name(self, path: Path) -> str:
        """Return the name of the object that a file is a copy of.

        Raises:
            StoreError: the path leads out of the folder; who writes into a store names its objects.
        """
        inside = path.relative_to(self.root)
        if ".." in inside.parts:
            where = self.objects.address.url
            raise StoreError(f"the store {where} holds a name that leads out of it: {inside}")
        return inside.as_posix()

    def forget_listings(self) -> None:
        """Ask again what is there."""
        with self._lock:
            self._listings.clear()

    def listing(self, folder: Path) -> dict[str, Listed]:
        """Return what lies below a folder of the remote store, asked for once."""
        name = self.name(folder)
        with self._lock:
            known = self._listings.get(name)
        if known is None:
            known = self.objects.listed(name)
            with self._lock:
                self._listings[name] = known
        return known

    def has(self, path: Path, asset: Path) -> bool:
        """Return whether an artifact below the folder of its asset is there, as it was listed."""
        name = _object_of(self.name(path))
        return name in self._sent or name in self.listing(asset)

    def bring(self, paths: Iterable[Path], *, anew: bool = False) -> int:
        """Fetch files that are not here; return how many came. One that is nowhere is left out.

        Args:
            paths: the files.
            anew: fetch also those that are here.

        Raises:
            StoreError: the remote store cannot be used, or the folder cannot be written.
        """
        missing = [path for path in dict.fromkeys(paths) if anew or not path.exists()]
        return sum(Objects.each(lambda path: self.objects.fetch(self.name(path), path), missing))

    def bring_tables(self, paths: Iterable[Path]) -> None:
        """Fetch artifacts that are tables and not here.

        Raises:
            StoreError: the remote store cannot be used, or the folder cannot be written.
        """
        tables = list(paths)
        self.bring(path / TABLE for path in tables)
        self.bring(path / MANIFEST for path in tables if (path / TABLE).is_file())

    def bring_folder(self, path: Path) -> bool:
        """Fetch a folder with all its files, and return whether it is here then.

        Raises:
            StoreError: the remote store cannot be used, or the folder cannot be written.
        """
        if (path / MANIFEST).is_file():
            return True
        names = self.objects.listed(self.name(path))
        if f"{self.name(path)}/{MANIFEST}" not in names:
            return False
        if path.is_dir():
            remove(path)  # without its manifest it is the rest of one
        with atomic_directory(path) as temporary:
            first = len(self.name(path)) + 1
            Objects.each(lambda name: self.objects.fetch(name, temporary / name[first:]), names)
        return True

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

    def knows_damaged(self, path: Path) -> bool:
        """Return whether an artifact was found to be damaged there."""
        with self._lock:
            return path in self._damaged

    def flush(self) -> None:
        """Send what was noted, in whatever order: nothing refers to it yet.

        Raises:
            StoreError: the remote store cannot be used; what is left is sent the next time.
        """
        with self._lock:
            noted = dict(self._noted)
        here = {path: immutable for path, immutable in noted.items() if path.exists()}
        self.put([path for path, immutable in here.items() if not immutable])
        self._take_theirs(self.send(path for path, immutable in here.items() if immutable))
        with self._lock:
            for path in noted:
                self._noted.pop(path, None)

    def send(self, paths: Iterable[Path]) -> list[Path]:
        """Send files and folders that are not there; return those that are.

        Raises:
            StoreError: the remote store cannot be used.
        """
        unique = list(dict.fromkeys(paths))
        objects = {path: _object_of(self.name(path)) for path in unique}
        there = self.objects.existing(objects.values())
        old = [path for path in unique if objects[path] in there and path not in self._damaged]
        new = [path for path in unique if path not in old]
        replaced = [path for path in new if path in self._damaged]
        self.put(replaced)
        old += self.put((path for path in new if path not in replaced), expected=ABSENT)
        with self._lock:
            self._sent.update(objects.values())
            self._damaged.difference_update(unique)
        return old

    def put(self, paths: Iterable[Path], expected: str = ANY) -> list[Path]:
        """Send files and folders; the manifest of a folder is its last file.

        Args:
            paths: of them.
            expected: what they replace, :data:`ANY` or :data:`ABSENT`. Files in a folder without a
                manifest are the rest of one, and are overwritten.

        Returns:
            Those that are not sent, since others are there.

        Raises:
            StoreError: the remote store cannot be used.
        """
        files: list[tuple[Path, Path]] = []
        last: list[tuple[Path, Path]] = []
        for path in paths:
            inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else []
            files += [(path, file) for file in inside or [path] if file.name != MANIFEST]
            last += [(path, file) for file in inside if file.name == MANIFEST]
        refused = self._send_each(files, expected)
        folders = {path: f"{self.name(path)}/{MANIFEST}" for path, _ in refused if path.is_dir()}
        whole = self.objects.existing(folders.values())
        rests = {path for path, manifest in folders.items() if manifest not in whole}
        self._send_each([one for one in refused if one[0] in rests], ANY)
        lost = {path for path, _ in refused} - rests
        # Whose file another one overwrote leaves the manifest to that one, so that both are of one.
        self._send_each([one for one in last if one[0] in rests], ANY)
        created = [one for one in last if one[0] not in rests | lost]
        lost |= {path for path, _ in self._send_each(created, expected)}
        return sorted(lost)

    def _send_each(self, files: list[tuple[Path, Path]], expected: str) -> list[tuple[Path, Path]]:
        """Send files, each with the artifact that it is of; return those that are refused."""
        sent = Objects.each(
            lambda one: self.objects.send(one[1], self.name(one[1]), expected), files
        )
        return [one for one, came in zip(files, sent, strict=True) if not came]

    def merge(self, path: Path, merged: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Overwrite a small object without losing what another machine writes meanwhile.

        Afterwards it is looked at again: a server may take no notice of conditions.

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
            self.objects.write(name, content, ABSENT if present is None else present.tag)
        raise StoreError(
            f"{self.objects.address.url}/{name} is changed by other machines all the time; "
            "run the command again"
        )

    def _take_theirs(self, paths: Iterable[Path]) -> None:
        """Put what another machine sent first in the place of what was computed here meanwhile."""
        for path in paths:
            if path.is_dir():
                remove(path)
                self.bring_folder(path)
            else:
                self.objects.fetch(self.name(path), path)

    def manifest(self, folder: Path) -> bytes | None:
        """Return the manifest of a folder that is not here; None: it is not there either."""
        if self._manifests.get(folder) is None:
            self._manifests[folder] = self.objects.read(f"{self.name(folder)}/{MANIFEST}")
        return self._manifests[folder]

    def send_missing(self, folder: Path) -> None:
        """Send the files below a folder that are not there.

        Raises:
            StoreError: the remote store cannot be used.
        """
        there = self.objects.listed(self.name(folder))
        files = (file for file in folder.rglob("*") if file.is_file())
        self.put([file for file in files if self._is_new(file, there)])

    def _is_new(self, file: Path, there: dict[str, Listed]) -> bool:
        return TEMPORARY_MARK not in file.as_posix() and self.name(file) not in there


def _object_of(name: str) -> str:
    """Return the object that makes an artifact whole: itself, or the manifest of a folder."""
    return name if "." in name.rpartition("/")[2] else f"{name}/{MANIFEST}"
