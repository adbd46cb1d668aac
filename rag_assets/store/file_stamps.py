"""What is known of files by their stamps: size, time of modification, inode.

Three readers trust a stamp: :class:`RecentFiles` keeps the contents of small files in memory,
:class:`SourceFiles` the digests of source files, and :class:`VerifiedFiles` which stored files hold
what was written.

Hashing every artifact at every evaluation would make one without a change as slow as the store is
large. So a file is hashed when its stamp (here the time of its change too) is not the one under
which it was written here or hashed before. That finds whatever went through the file system: an
edit, a truncation, a half-finished copy, a restored backup. Damage below the file system leaves the
stamp as it is; delete the file of the stamps, and everything is hashed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from rag_assets.errors import DataError
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint
from rag_assets.store.locks import locked

Content = TypeVar("Content")


class _State(NamedTuple):
    size: int
    changed: int
    noted: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _State:
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class RecentFiles(Generic[Content]):
    """Contents by path, as long as the file is the one that was read; threads may share it.

    What is kept is shared: nobody may change it.
    """

    def __init__(self, size: Callable[[Content], int], largest: int, together: int) -> None:
        """Keep contents whose ``size`` is at most ``largest``, ``together`` in all."""
        self._size, self._largest, self._together = size, largest, together
        self._kept: OrderedDict[Path, tuple[_State, Content]] = OrderedDict()
        self._sum = 0
        self._lock = threading.Lock()

    def get(self, path: Path, read: Callable[[Path], Content]) -> Content:
        """Return the content of a file; ``read`` is asked for one that is not known.

        Raises:
            OSError: there is no such file.
        """
        state = _State.of(path)
        with self._lock:
            known = self._kept.get(path)
            if known is not None and known[0] == state:
                self._kept.move_to_end(path)
                return known[1]
        content = read(path)
        if self._size(content) <= self._largest:
            self._keep(path, state, content)
        return content

    def _keep(self, path: Path, state: _State, content: Content) -> None:
        with self._lock:
            self._drop(self._kept.pop(path, None))
            self._kept[path] = state, content
            self._sum += self._size(content)
            while self._sum > self._together:
                self._drop(self._kept.popitem(last=False)[1])

    def _drop(self, known: tuple[_State, Content] | None) -> None:
        if known is not None:
            self._sum -= self._size(known[1])


SETTLED = 2_000_000_000
"""Nanoseconds after which another edit of a file surely changes its time of modification."""


def readable_name(name: str, root: Path) -> str:
    """Return the name of a file below ``root``, which can be written to JSON and to Parquet.

    Raises:
        DataError: it is not UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:
        problem = f"holds a file whose name is not UTF-8: {name!a}"
        raise DataError(problem, file=root) from error
    return name


class SourceFiles:
    """Hashes files by content; trusts (size, mtime, inode) for files that it has hashed before."""

    def __init__(self, cache_file: Path | None = None) -> None:
        """Use ``cache_file`` to remember hashes across processes; None remembers nothing."""
        self._cache_file = cache_file
        self._known: dict[str, list[object]] = _read_digests(cache_file)
        self._changed = False

    def digest(self, files: Iterable[Path], root: Path) -> str:
        """Return one digest of the names below ``root`` and the contents of ``files``.

        Raises:
            DataError: the name of a file is not UTF-8.
        """
        content = {readable_name(_name(file, root), root): self._sha256(file) for file in files}
        self._save()
        return fingerprint(content)

    def _sha256(self, file: Path) -> str:
        status = file.stat()
        stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
        known = self._known.get(str(file))
        if known is not None and known[:3] == stamp:
            return str(known[3])
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if time.time_ns() - status.st_mtime_ns > SETTLED:
            self._known[str(file)] = [*stamp, digest]
            self._changed = True
        return digest

    def _save(self) -> None:
        if self._changed and self._cache_file is not None:
            write_text(self._cache_file, json.dumps(self._known))
            self._changed = False


def _name(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


def _read_digests(cache_file: Path | None) -> dict[str, list[object]]:
    if cache_file is None:
        return {}
    try:
        known = json.loads(cache_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


_log = logging.getLogger(__name__)


class VerifiedFiles:
    """The stamps of a store's artifacts, by their path in the store."""

    def __init__(self, root: Path, file: Path) -> None:
        """Remember in ``file`` what was verified below ``root``; nothing is read yet."""
        self._root = root
        self._file = file
        self._known: dict[str, str] | None = None
        self._new: dict[str, str] = {}
        self._damaged: set[Path] = set()

    def holds(self, path: Path, files: Mapping[str, str]) -> bool:
        """Return whether an artifact has the stamp under which it was verified.

        Args:
            path: of it.
            files: name -> SHA-256 of its files.
        """
        stamp = _stamp(path, files)
        name = self._name(path)
        if self._known is None:
            self._known = dict(_read_stamps(self._file))
        return stamp is not None and stamp in (self._new.get(name), self._known.get(name))

    def add(self, path: Path, files: Mapping[str, str]) -> None:
        """Take an artifact as it is now for verified."""
        stamp = _stamp(path, files)
        if stamp is not None:
            self._new[self._name(path)] = stamp

    def refuse(self, path: Path) -> None:
        """Say, once, that a file or folder is not what was written."""
        if path not in self._damaged:
            self._damaged.add(path)
            _log.warning("%s is damaged; it is not used and will be computed again", path)

    def save(self) -> None:
        """Keep for other processes what was verified; what is gone is forgotten.

        Raises:
            StoreError: the folder cannot be written.
        """
        if not self._new:
            return
        with locked(self._file.with_suffix(".lock")):
            known = {**_read_stamps(self._file), **self._new}
            kept = {name: stamp for name, stamp in known.items() if self._is_there(name)}
            write_text(self._file, json.dumps(kept), durable=False)
        self._known, self._new = kept, {}

    def _is_there(self, name: str) -> bool:
        # No Path, which costs more than the question: there is one for every artifact of the store.
        return os.path.exists(f"{self._root}/{name}")  # noqa: PTH110

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _stamp(path: Path, files: Mapping[str, str]) -> str | None:
    """Return what the file system says of the files of an artifact; None: one is gone."""
    try:
        # No Path, which costs more than the question: every artifact is asked about.
        statuses = [(name, stated, os.stat(f"{path}/{name}")) for name, stated in files.items()]  # noqa: PTH116
    except OSError:
        return None
    rows = [
        [name, stated, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino]
        for name, stated, s in statuses
    ]
    return fingerprint(rows)[:32]


def _read_stamps(file: Path) -> Mapping[str, str]:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
