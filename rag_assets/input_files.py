"""Files that people give: what may be opened, and text, plain or compressed (``.gz``).

All readers of text go through here, so each takes the same kinds of files. A path must be a file: a
FIFO would wait for a writer without end, a device has no end.
"""

from __future__ import annotations

import errno
import gzip
import io
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from rag_assets.errors import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP = ".gz"

FREE_BYTES = 100_000_000
"""So much may be unpacked of any file, however small."""

LARGEST_RATIO = 200
"""Above that, a file may unpack to so many times its size; text becomes 3 to 50 times as large."""

DEFLATE_RATIO = 1032
"""Deflate makes nothing smaller than this (https://zlib.net/zlib_tech.html)."""

UNPACKED_FIRST = 16_000_000
"""A ``.gz`` file up to this size is unpacked once to know how large it is."""

# What a process holds open already: `<(...)` of a shell, and a pipe into /dev/stdin.
_OPEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")

_LFS, _LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024
"""How a pointer of Git LFS begins, and its most bytes."""

MAX_PATH_BYTES = 3_500
"""Of a path; Linux takes 4,095, and there is more below it."""

MAX_NAME_BYTES = 255

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
    if size > MAX_PATH_BYTES:
        return f"its name has {size:,} bytes; allowed: {MAX_PATH_BYTES:,}"
    long = [part for part in path.parts if len(part.encode()) > MAX_NAME_BYTES]
    return f"a part of its name has more than {MAX_NAME_BYTES} bytes" if long else None


def missing_file(path: Path) -> str:
    """Return why a path is no file: nothing is there, or something else is."""
    kind = "a folder" if path.is_dir() else special_kind(path)
    return f"no such file: {path}" if kind is None else f"{path} is {kind}, not a file"


def plain_name(path: Path) -> str:
    """Return the name of a file without ``.gz``."""
    return path.name[: -len(GZIP)] if path.name.lower().endswith(GZIP) else path.name


def suffix(path: Path) -> str:
    """Return what a name says of the content, in lower case: ``.jsonl`` of ``corpus.jsonl.gz``."""
    return Path(plain_name(path)).suffix.lower()


def existing(path: Path) -> Path | None:
    """Return the file, or the one with ``.gz`` after its name, where there is one.

    Raises:
        DataError: both are there.
    """
    both = (path, path.with_name(path.name + GZIP))
    files = [file for file in both if file.is_file()]
    if len(files) > 1:
        raise DataError(f"{path.name} exists too; keep one of them", file=files[1])
    return files[0] if files else None


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open the bytes of a text file, decompressed where its name ends in ``.gz``.

    Raises:
        DataError: the file cannot be read or is damaged, or unpacks to more than is allowed.
    """
    try:
        with content_file(path).open("rb") as file:
            if path.suffix.lower() != GZIP:
                yield file
                return
            size = path.stat().st_size
            allowed = max(FREE_BYTES, LARGEST_RATIO * size)
            unpacked = _Unpacked(gzip.GzipFile(fileobj=file), path, allowed)
            if size <= UNPACKED_FIRST and size * DEFLATE_RATIO > allowed:
                # Before anybody reads it: a parser of lines may take a minute until the limit.
                while unpacked.read(1 << 20):
                    pass
                unpacked.rewind()
            yield cast("BinaryIO", io.BufferedReader(unpacked, 1 << 17))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: damaged gzip data ({error})", file=path) from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a whole text file.

    Raises:
        DataError: as :func:`opened`.
    """
    with opened(path) as stream:
        return stream.read()


class _Unpacked(io.RawIOBase):
    """What a ``.gz`` file unpacks to, up to the limit."""

    def __init__(self, unpacked: gzip.GzipFile, path: Path, allowed: int) -> None:
        self._unpacked = unpacked
        self._path = path
        self._allowed = allowed
        self._size = 0

    def readable(self) -> bool:
        return True

    def rewind(self) -> None:
        self._unpacked.seek(0)
        self._size = 0

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        count = self._unpacked.readinto(buffer)
        self._size += count
        if self._size > self._allowed:
            rule = f"{FREE_BYTES:,} or {LARGEST_RATIO} times the size of the file are allowed"
            problem = f"unpacks to more than {self._allowed:,} bytes; {rule}; if you trust "
            raise DataError(f"{problem}it, unpack it yourself", file=self._path)
        return count
