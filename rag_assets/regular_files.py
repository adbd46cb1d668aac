"""Paths that must be files: a FIFO would wait for a writer without end, a device has no end."""

from __future__ import annotations

import errno
import stat
from contextlib import suppress
from pathlib import Path

# What a process holds open already: `<(...)` of a shell, and a pipe into /dev/stdin.
_OPEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")

_LFS, _LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024
"""How a pointer of Git LFS begins, and its most bytes."""

MOST_BYTES = 3_500
"""Of a path; Linux takes 4,095, and there is more below it."""

MOST_OF_A_PART = 255

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


def content_file(path: Path) -> Path:
    """Return the path of a file whose content is read.

    Raises:
        OSError: as :func:`regular`, or Git LFS keeps the content elsewhere.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISREG((status := path.stat()).st_mode) and status.st_size <= _LFS_BYTES:
            with path.open("rb") as stream:
                if stream.read(len(_LFS)) == _LFS:
                    problem = "it is a pointer of Git LFS, not the file; run `git lfs pull`"
                    raise OSError(errno.EINVAL, problem, str(path))
    return regular(path)


def unusable(path: Path) -> str | None:
    """Return why no path can be like this one, as a phrase; None where it can."""
    try:
        size = len(str(path).encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > MOST_BYTES:
        return f"its name has {size:,} bytes; allowed: {MOST_BYTES:,}"
    long = [part for part in path.parts if len(part.encode()) > MOST_OF_A_PART]
    return f"a part of its name has more than {MOST_OF_A_PART} bytes" if long else None


def missing_file(path: Path) -> str:
    """Return why a path is no file: nothing is there, or something else is."""
    kind = "a folder" if path.is_dir() else special_kind(path)
    return f"no such file: {path}" if kind is None else f"{path} is {kind}, not a file"
