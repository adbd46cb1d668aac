"""Lines of TREC's text files: their fields, and what a line of qrels holds.

Both readers of qrels use it: the one of a dataset, and the one of files that are scored.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.errors import DataError
from rag_assets.text_files import opened

COMMENT = "#"
BEIR_COLUMNS = 3
TREC_COLUMNS = 4
BEIR_HEADER = ["query-id", "corpus-id", "score"]
_INTEGRAL = re.compile(r"([+-]?[0-9]{1,18})(?:\.0*)?")
GRADE_LIMIT = 2**31


class QrelLine(NamedTuple):
    """One judgment: its line from 1, the ids and the grade; the iteration has no meaning."""

    line: int
    query_id: str
    document_id: str
    grade: int


def read_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number from 1, fields) of every line that is neither blank nor a comment (``#``).

    Any ASCII white space parts the fields, as in trec_eval, and ends a line (CRLF); an id may hold
    other blanks. A byte order mark is skipped.
    """
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            try:
                fields = [field.decode() for field in line.split()]
            except UnicodeDecodeError as error:
                problem = f"is not UTF-8 text ({error.reason})"
                raise DataError(problem, file=path, line=number) from error
            if fields and not fields[0].startswith(COMMENT):
                yield number, fields


def qrel_line(
    path: Path, number: int, fields: list[str], columns: tuple[int, ...] = (TREC_COLUMNS,)
) -> QrelLine:
    """Return the judgment of one line.

    TREC is ``query iteration document grade``; BEIR, where 3 is among the ``columns`` allowed, is
    ``query document grade``. A grade is an integer of 32 bits.
    """
    if len(fields) not in columns:
        problem = f"has {len(fields)} fields; a qrels line is 'query iteration document grade'"
        raise DataError(problem, file=path, line=number)
    grade = integral(fields[-1])
    if grade is None:
        raise DataError(f"grade {fields[-1][:60]!r} is not an integer", file=path, line=number)
    if not -GRADE_LIMIT <= grade < GRADE_LIMIT:
        raise DataError(f"grade {grade} does not fit 32 bits", file=path, line=number)
    return QrelLine(number, fields[0], fields[-2], grade)


def integral(text: str) -> int | None:
    """Return the integer that a text stands for, ``1.0`` as well as ``1``; None for any other."""
    match = _INTEGRAL.fullmatch(text)
    return None if match is None else int(match[1])
