"""Paths that must be files: a FIFO would wait for a writer without end, a device has no end."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

# What a process holds open already: `<(...)` of a shell, and a pipe into /dev/stdin.
_OPEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def special_kind(path: Path) -> str | None:
    """Return ``a FIFO``, ``a device`` or ``a socket``; None for a file, a folder and nothing."""
    try:
        return _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except (OSError, ValueError):
        return None


def regular(path: Path) -> Path:
    """Return the path, which may be opened; a pipe that is open already may.

    Raises:
        OSError: it is a FIFO, a device or a socket.
    """
    kind = special_kind(path)
    if kind is None or (kind == "a FIFO" and str(path).startswith(_OPEN)):
        return path
    raise OSError(errno.EINVAL, f"{kind}, not a file", str(path))


def missing_file(path: Path) -> str:
    """Return why a path is no file: nothing is there, or something else is."""
    kind = "a folder" if path.is_dir() else special_kind(path)
    return f"no such file: {path}" if kind is None else f"{path} is {kind}, not a file"
