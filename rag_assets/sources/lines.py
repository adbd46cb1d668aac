"""UTF-8 text from files, whole or line by line, with errors that name file and line."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from pathlib import Path

from rag_assets.errors import DataError
from rag_assets.sources.problems import RowError, parse_each
from rag_assets.text_files import opened, read_bytes

BOM = codecs.BOM_UTF8


def read_raw_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line with its end, as bytes) of every line that is not blank.

    Blank lines too when ``blank``. A file whose name ends in ``.gz`` is decompressed. A byte order
    mark is skipped.

    Raises:
        DataError: the file cannot be read.
    """
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            content = raw.removeprefix(BOM) if number == 1 else raw
            if blank or (not content.isspace() and content):
                yield number, content


def read_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of every line that is not blank.

    Blank lines too when ``blank``. A file whose name ends in ``.gz`` is decompressed.

    Only line feeds end a line (a carriage return before one is dropped), so that U+2028 or a form
    feed inside a value does no harm. A byte order mark is skipped.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    return parse_each(
        lambda line: (line[0], decoded(line[1], path, line[0]).rstrip("\r\n")),
        read_raw_lines(path, blank=blank),
    )


def read_text(path: Path) -> str:
    """Return a whole file as text, without byte order mark, every line ended by a line feed.

    A file whose name ends in ``.gz`` is decompressed.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    text = decoded(read_bytes(path).removeprefix(BOM), path, 1)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a file or folder that the system does not let us read."""
    reason = os.strerror(error.errno) if error.errno else error  # Arrow's own text is long
    return DataError(f"cannot be read: {reason}", file=path)


def decoded(data: bytes, path: Path, first_line: int) -> str:
    """Return UTF-8 bytes as text.

    Raises:
        DataError: they are not UTF-8; names the line, counted from ``first_line``.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        start = data.rfind(b"\n", 0, error.start) + 1
        utf16 = first_line == 1 and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        problem = (
            "looks like UTF-16; must be UTF-8"
            if utf16
            else f"not UTF-8: byte 0x{data[error.start]:02x}, the {error.start - start + 1}. "
            "of its line"
        )
        raise RowError(problem, file=path, line=line) from error
