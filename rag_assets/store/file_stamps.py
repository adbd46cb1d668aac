"""What is known of files by their stamps: size, time of modification, time of change, inode.

Three readers trust a stamp: :func:`remembered` keeps what was read of a file in memory,
:class:`SourceFiles` the digests of source files, and :class:`VerifiedFiles` which stored files hold
what was written.

Hashing every artifact at every evaluation would make one without a change as slow as the store is
large. So a file is hashed when its stamp is not the one under which it was written here or hashed
before. That finds whatever went through the file system: an edit, a truncation, a half-finished
copy, a restored backup. Damage below the file system leaves the stamp as it is; delete the file of
the stamps, and everything is hashed again.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from rag_assets.errors import DataError
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import file_digest, fingerprint
from rag_assets.store.locks import locked

Content = TypeVar("Content")

SETTLED = 2_000_000_000
"""Nanoseconds after which another edit of a file surely changes its time of modification."""

_log = logging.getLogger(__name__)


def _stamp(path: Path | str) -> list[int]:
    # No Path, which costs more than the question: every artifact is asked about.
    status = os.stat(path)  # noqa: PTH116
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _read_json(file: Path | None) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def remembered(n_files: int) -> Callable[[Callable[[Path], Content]], Callable[[Path], Content]]:
    """Remember what a function reads of the last files, as long as they stay as they are.

    What is remembered is shared: nobody may change it. Raises OSError where there is no file.
    """

    def decorated(read: Callable[[Path], Content]) -> Callable[[Path], Content]:
        @lru_cache(n_files)
        def read_at_stamp(path: Path, _: tuple[int, ...]) -> Content:
            return read(path)

        return lambda path: read_at_stamp(path, tuple(_stamp(path)))

    return decorated


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
    """Hashes files by content; trusts the stamps of files that it has hashed before."""

    def __init__(self, cache_file: Path | None = None) -> None:
        """Use ``cache_file`` to remember hashes across processes; None remembers nothing."""
        self._cache_file = cache_file
        self._hashed: dict[str, list[Any]] = _read_json(cache_file)

    def digest(self, files: Iterable[Path], root: Path) -> str:
        """Return one digest of the names below ``root`` and the contents of ``files``.

        Raises:
            DataError: the name of a file is not UTF-8.
        """
        content, n_new = {}, 0
        for file in files:
            is_below = file.is_relative_to(root)
            name = file.relative_to(root).as_posix() if is_below else file.name
            stamp = _stamp(file)
            hashed = self._hashed.get(str(file), [None, ""])
            if hashed[0] != stamp:
                hashed = [stamp, file_digest(file)]
                if time.time_ns() - stamp[1] > SETTLED:
                    self._hashed[str(file)] = hashed
                    n_new += 1
            content[readable_name(name, root)] = hashed[1]
        if n_new and self._cache_file is not None:
            write_text(self._cache_file, json.dumps(self._hashed))
        return fingerprint(content)


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
        """Return whether an artifact with these SHA-256 has the stamp it was verified under."""
        if self._known is None:
            self._known = _read_json(self._file)
        stamp, name = _stamps(path, files), self._name(path)
        return stamp is not None and stamp in (self._new.get(name), self._known.get(name))

    def add(self, path: Path, files: Mapping[str, str]) -> None:
        """Take an artifact as it is now for verified."""
        stamp = _stamps(path, files)
        if stamp is not None:
            self._new[self._name(path)] = stamp

    def refuse(self, path: Path) -> None:
        """Say, once, that a file or folder is not what was written."""
        if path not in self._damaged:
            self._damaged.add(path)
            _log.warning("%s is damaged; it is not used and will be computed again", path)

    def save(self) -> None:
        """Keep for other processes what was verified; what is gone is forgotten."""
        if not self._new:
            return
        with locked(self._file.with_suffix(".lock")):
            stamps = {**_read_json(self._file), **self._new}
            present = {n: one for n, one in stamps.items() if os.path.exists(f"{self._root}/{n}")}  # noqa: PTH110
            write_text(self._file, json.dumps(present), durable=False)
        self._known, self._new = present, {}

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _stamps(path: Path, files: Mapping[str, str]) -> str | None:
    """Return what the file system says of the files of an artifact; None: one is gone."""
    try:
        rows = [[name, stated, *_stamp(f"{path}/{name}")] for name, stated in files.items()]
    except OSError:
        return None
    return fingerprint(rows)[:32]


def modified(path: Path) -> int:
    """Return when a file or folder was written, in nanoseconds since 1970; 0: it is not there."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
