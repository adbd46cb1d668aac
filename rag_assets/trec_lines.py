"""Lines of TREC's text files: their fields, and what a line of qrels holds.

Both readers of qrels use it: the one of a dataset, and the one of files that are scored.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from rag_assets.errors import DataError
from rag_assets.regular_files import regular

BEIR_COLUMNS = 3
TREC_COLUMNS = 4

_BEIR_HEADER = ["query-id", "corpus-id", "score"]
_GRADE = re.compile(r"([+-]?[0-9]{1,18})(?:\.0*)?")
_GRADE_LIMIT = 2**31

BROKEN_STREAM = (EOFError, zlib.error)
"""What reading a damaged .gz file raises besides :class:`OSError`."""


class QrelLine(NamedTuple):
    """One judgment: its line from 1, the ids and the grade; the iteration has no meaning."""

    line: int
    query_id: str
    document_id: str
    grade: int


def open_bytes(path: Path) -> BufferedIOBase:
    """Return the bytes of a file as a stream, decompressed when its name ends in ``.gz``."""
    if path.suffix.lower() == ".gz":
        return gzip.open(regular(path), "rb")
    return regular(path).open("rb")


def read_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number from 1, fields) of every line that is not blank.

    Any ASCII white space parts the fields, as in trec_eval, two blanks as well as a tab, and ends
    a line (CRLF); an id may hold other blanks. A ``#`` is part of an id, never a comment. A byte
    order mark is skipped.

    Raises:
        DataError: the file cannot be read, or a line is not UTF-8.
    """
    try:
        with open_bytes(path) as stream:
            for number, raw in enumerate(stream, start=1):
                line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                fields = [_decoded(field, path, number) for field in line.split()]
                if fields:
                    yield number, fields
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
    except BROKEN_STREAM as error:
        raise DataError(f"cannot be read: damaged gzip data ({error})", file=path) from error


def read_qrel_lines(path: Path, columns: tuple[int, ...] = (TREC_COLUMNS,)) -> Iterator[QrelLine]:
    """Yield every judgment of a qrels file; a header of BEIR is skipped where it may be one.

    Raises:
        DataError: a line is not one judgment.
    """
    for number, fields in read_fields(path):
        if BEIR_COLUMNS not in columns or fields != _BEIR_HEADER:
            yield qrel_line(path, number, fields, columns)


def qrel_line(
    path: Path, number: int, fields: list[str], columns: tuple[int, ...] = (TREC_COLUMNS,)
) -> QrelLine:
    """Return the judgment of one line.

    TREC is ``query iteration document grade``; BEIR, where 3 is among the ``columns`` allowed, is
    ``query document grade``.

    Raises:
        DataError: there is another number of fields, or the grade is not an integer of 32 bits.
    """
    if len(fields) not in columns:
        problem = f"has {len(fields)} fields; a qrels line is 'query iteration document grade'"
        raise DataError(problem, file=path, line=number)
    return QrelLine(number, fields[0], fields[-2], _grade(fields[-1], path, number))


def _grade(text: str, path: Path, number: int) -> int:
    integral = _GRADE.fullmatch(text)
    if integral is None:
        raise DataError(f"grade {text[:60]!r} is not an integer", file=path, line=number)
    grade = int(integral.group(1))
    if not -_GRADE_LIMIT <= grade < _GRADE_LIMIT:
        raise DataError(f"grade {text} does not fit 32 bits", file=path, line=number)
    return grade


def _decoded(field: bytes, path: Path, number: int) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text ({error.reason})"
        raise DataError(problem, file=path, line=number) from error
