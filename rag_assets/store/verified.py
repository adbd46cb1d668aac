"""Which stored files were found to hold what was written, and as what they were seen then.

Hashing every artifact at every evaluation would make one without a change as slow as the store is
large. So a file is hashed when its stamp (size, times of modification and change, inode) is not the
one under which it was written here or hashed before. That finds whatever went through the file
system: an edit, a truncation, a half-finished copy, a restored backup. Damage below the file system
leaves the stamp as it is; delete the file of the stamps, and everything is hashed again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint
from rag_assets.store.locks import locked

_log = logging.getLogger(__name__)


class Verified:
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
            files: name -> SHA-256 of its files; empty: it is of an older store.
        """
        stamp = _stamp(path, files)
        name = self._name(path)
        if self._known is None:
            self._known = dict(_read(self._file))
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
            known = {**_read(self._file), **self._new}
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
        found = [(name, stated, os.stat(f"{path}/{name}")) for name, stated in files.items()]  # noqa: PTH116
        if not files:
            older = sorted(path.rglob("*")) if path.is_dir() else [path]
            found = [(file.relative_to(path).as_posix(), "", file.stat()) for file in older]
    except OSError:
        return None
    rows = [
        [name, stated, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino]
        for name, stated, s in found
    ]
    return fingerprint(rows)[:32]


def _read(file: Path) -> Mapping[str, str]:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
