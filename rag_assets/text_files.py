"""Opens every text file that people bring, plain or compressed (``.gz``).

All readers of text go through here, so each takes the same kinds of files, and one limit holds for
what is unpacked.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from rag_assets.errors import DataError
from rag_assets.regular_files import content_file

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
            problem = f"unpacks to more than {self._allowed:,} bytes; {rule}; unpack it yourself "
            raise DataError(f"{problem}where you trust it", file=self._path)
        return count
