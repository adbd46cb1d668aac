"""Opens every text file that people bring: plain, compressed (``.gz``), or a member of a ``.zip``.

All readers of text go through here, so each takes the same kinds of files, and one limit holds for
what is unpacked. A member of an archive has a path like a file,
``scifact.zip/scifact/corpus.jsonl``, and is never unpacked onto the disk, so no name in an archive
can lead out of a folder.
"""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, cast

from rag_assets.errors import DataError
from rag_assets.regular_files import content_file

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP = ".gz"
ARCHIVE = ".zip"

FREE_BYTES = 100_000_000
"""So much may be unpacked of any file, however small."""

LARGEST_RATIO = 200
"""Above that, a file may unpack to so many times its size; text becomes 3 to 50 times as large."""

DEFLATE_RATIO = 1032
"""Deflate makes nothing smaller than this (https://zlib.net/zlib_tech.html)."""

UNPACKED_FIRST = 16_000_000
"""A ``.gz`` file up to this size is unpacked once to know how large it is."""

MOST_MEMBERS = 10_000

_BROKEN = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_MAC_FOLDER = "__MACOSX"


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
    found = [one for one in (path, path.with_name(path.name + GZIP)) if one.is_file()]
    if len(found) > 1:
        raise DataError(f"{found[0].name} exists too; keep one of them", file=found[1])
    return found[0] if found else None


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open the bytes of a text file, decompressed where its name ends in ``.gz``.

    Raises:
        DataError: the file cannot be read or is damaged, or unpacks to more than is allowed.
    """
    try:
        with _stream(path) as stream:
            yield stream
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
    except _BROKEN as error:
        kind = "gzip" if path.suffix.lower() == GZIP else "zip"
        raise DataError(f"cannot be read: damaged {kind} data ({error})", file=path) from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a whole text file.

    Raises:
        DataError: as :func:`opened`.
    """
    with opened(path) as stream:
        return stream.read()


def archive_of(path: Path) -> Path | None:
    """Return the archive that holds a member; None for a path that leads into none."""
    for parent in path.parents:
        if parent.suffix.lower() == ARCHIVE and parent.is_file():
            return parent
    return None


def members(archive: Path) -> list[str]:
    """Return the names of the files in an archive, without hidden ones, sorted.

    Raises:
        DataError: it is damaged, locked, holds too much, or a name in it is twice there or leads
            out of it.
    """
    with _opened_archive(archive) as opened_archive:
        found = [info for info in opened_archive.infolist() if not info.is_dir()]
    _check_size(archive, found)
    names = Counter(info.filename for info in found)
    for info in found:
        if _leads_out(info.filename):
            problem = f"holds the name {info.filename!r}, which leads out of it"
            raise DataError(problem, file=archive)
        if names[info.filename] > 1:
            raise DataError(f"holds {info.filename!r} twice", file=archive)
        if info.flag_bits & 1:
            raise DataError(f"{info.filename!r} in it is locked by a password", file=archive)
    return sorted(name for name in names if not _is_hidden(name))


def _check_size(archive: Path, found: list[zipfile.ZipInfo]) -> None:
    if len(found) > MOST_MEMBERS:
        problem = f"holds {len(found):,} files; {MOST_MEMBERS:,} are allowed"
        raise DataError(problem, file=archive)
    # Reading ends at the size that is declared here, so it may be believed.
    size, allowed = sum(info.file_size for info in found), _allowed(archive)
    if size > allowed:
        raise DataError(f"unpacks to {size:,} bytes, more than {_limit(allowed)}", file=archive)


def _leads_out(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return ".." in parts or parts[:1] == ("/",) or ":" in parts[0]


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return parts[0] == _MAC_FOLDER or any(part.startswith(".") for part in parts)


@contextmanager
def _opened_archive(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(content_file(archive)) as opened_archive:
            yield opened_archive
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=archive) from error
    except (*_BROKEN, ValueError, NotImplementedError) as error:
        raise DataError(f"cannot be read as a zip file: {error}", file=archive) from error


def _stream(path: Path) -> BinaryIO:
    if path.suffix.lower() != GZIP:
        return _plain_stream(path)
    if _is_suspicious(path):
        # Before anybody reads it: a parser of lines may take a minute until the limit is reached.
        with _unpacked(path) as stream:
            while stream.read(1 << 20):
                pass
    return _unpacked(path)


def _unpacked(path: Path) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Unpacked(_plain_stream(path), path), 1 << 17))


def _is_suspicious(path: Path) -> bool:
    """Return whether a small ``.gz`` file may unpack to more than is allowed."""
    file = archive_of(path) or path
    size = file.stat().st_size
    return file.is_file() and size <= UNPACKED_FIRST and size * DEFLATE_RATIO > _allowed(file)


def _plain_stream(path: Path) -> BinaryIO:
    archive = archive_of(path)
    if archive is None:
        return content_file(path).open("rb")
    name = path.relative_to(archive).as_posix()
    if name not in members(archive):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    with _opened_archive(archive) as opened_archive:
        # The member keeps the file open until it is itself closed.
        return cast("BinaryIO", opened_archive.open(name))


class _Unpacked(io.RawIOBase):
    """What a ``.gz`` file unpacks to, up to the limit."""

    def __init__(self, packed: BinaryIO, path: Path) -> None:
        self._packed = packed
        self._unpacked = gzip.GzipFile(fileobj=packed)
        self._path = path
        self._allowed = _allowed(archive_of(path) or path)
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        count = self._unpacked.readinto(buffer)
        self._size += count
        if self._size > self._allowed:
            problem = f"unpacks to more than {_limit(self._allowed)}"
            raise DataError(problem, file=self._path)
        return count

    def close(self) -> None:
        self._unpacked.close()
        self._packed.close()
        super().close()


def _allowed(file: Path) -> int:
    return max(FREE_BYTES, LARGEST_RATIO * file.stat().st_size)


def _limit(allowed: int) -> str:
    rule = f"{FREE_BYTES:,} or {LARGEST_RATIO} times the size of the file are allowed"
    return f"{allowed:,} bytes; {rule}; unpack it yourself where you trust it"
