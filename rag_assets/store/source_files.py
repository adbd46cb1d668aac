"""Digests of source files, with a stat cache so that unchanged files are not read again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint

SETTLED = 2_000_000_000
"""Nanoseconds after which another edit of a file surely changes its time of modification."""


class SourceFiles:
    """Hashes files by content; trusts (size, mtime, inode) for files that it has hashed before."""

    def __init__(self, cache_file: Path | None = None) -> None:
        """Use ``cache_file`` to remember hashes across processes; None remembers nothing."""
        self._cache_file = cache_file
        self._known: dict[str, list[object]] = _read(cache_file)
        self._changed = False

    def digest(self, files: Iterable[Path], root: Path) -> str:
        """Return one digest of the names below ``root`` and the contents of ``files``."""
        content = {_name(file, root): self._sha256(file) for file in files}
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


def _read(cache_file: Path | None) -> dict[str, list[object]]:
    if cache_file is None:
        return {}
    try:
        known = json.loads(cache_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
