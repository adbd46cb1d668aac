"""The sheet that people fill in: CSV, which every spreadsheet program opens."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.datasets.csv_rows import read_csv
from rag_assets.datasets.fields import GRADE_LIMIT, Place, shown
from rag_assets.datasets.ids import KnownIds
from rag_assets.datasets.spreadsheet_cells import plain, shielded
from rag_assets.errors import DataError
from rag_assets.pooling.pool import PooledUnit

COLUMNS = ("query_id", "query", "document_id", "start", "end", "title", "text", "grade")

_INTEGER = re.compile(r"[0-9]{1,10}")


class GradedUnit(NamedTuple):
    """A row of the sheet that has a grade, and the line on which it begins."""

    unit: PooledUnit
    grade: int
    line: int


def sheet_text(units: Iterable[PooledUnit], documents: pa.Table, queries: pa.Table) -> str:
    """Return the sheet as CSV, with an empty column of grades and a byte order mark.

    Args:
        units: what is to be judged, in this order.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
    """
    texts = _by_id(queries, "query_id", ("text",))
    sources = _by_id(documents, "document_id", ("title", "text"))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for unit in units:
        title, text = sources[unit.document_id]
        cells = (unit.query_id, texts[unit.query_id][0], unit.document_id)
        safe = [shielded(cell) for cell in (*cells, title, text[unit.start : unit.end])]
        writer.writerow([*safe[:3], unit.start, unit.end, *safe[3:], ""])
    return f"\ufeff{stream.getvalue()}"


def read_sheet(file: Path, documents: pa.Table, queries: pa.Table) -> tuple[list[GradedUnit], int]:
    """Return the graded rows of a sheet, and how many have no grade.

    Raises:
        DataError: a column is missing, or a graded row has a grade that is no integer from 0 on,
            an unknown id, a span that the document has not, a text that is no longer at its span,
            or a second, different grade; the first problem is told, the others are counted.
    """
    check = _Check(documents, queries)
    graded: dict[PooledUnit, GradedUnit] = {}
    problems: list[DataError] = []
    n_empty = 0
    for line, row in read_csv(file):
        missing = [name for name in COLUMNS if name not in row]
        if missing:
            problem = f"lacks the columns {', '.join(missing)}; needed: {', '.join(COLUMNS)}"
            raise DataError(problem, file=file, line=1)
        if not row["grade"].strip():
            n_empty += 1
            continue
        try:
            found = check.graded(row, Place(file, line))
            first = graded.setdefault(found.unit, found)
            if first.grade != found.grade:
                problem = f"is {found.grade}, but {first.grade} for the same on line {first.line}"
                raise Place(file, line).error(problem, "grade")
        except DataError as error:
            problems.append(error)
    refuse(problems)
    return list(graded.values()), n_empty


def refuse(problems: list[DataError]) -> None:
    """Raise the first problem, with the number of others.

    Raises:
        DataError: there is a problem.
    """
    if problems:
        others = f" (and {len(problems) - 1} more rows)" if len(problems) > 1 else ""
        raise DataError(f"{problems[0]}{others}; nothing was imported")


class _Check:
    """What a graded row must agree with."""

    def __init__(self, documents: pa.Table, queries: pa.Table) -> None:
        self._queries = KnownIds("query", queries.column("query_id"))
        self._documents = KnownIds("document", documents.column("document_id"))
        self._texts = documents.column("text")

    def graded(self, row: dict[str, str], place: Place) -> GradedUnit:
        grade = _number(row, "grade", place)
        query_id, document_id = plain(row["query_id"]), plain(row["document_id"])
        self._queries.row(query_id, place, "query_id")
        text = self._texts[self._documents.row(document_id, place, "document_id")].as_py()
        start, end = _number(row, "start", place), _number(row, "end", place)
        if start > end or end > len(text):
            document = f"{shown(document_id)}, of {len(text)} characters"
            problem = f"the span {start}-{end} is not in {document}"
            raise place.error(problem, "end")
        if _lines_alike(plain(row["text"])) != _lines_alike(text[start:end]):
            problem = (
                f"{shown(row['text'])} is not what stands at characters {start}-{end} of "
                f"{shown(document_id)}; the document changed, or the sheet was edited"
            )
            raise place.error(problem, "text")
        return GradedUnit(PooledUnit(query_id, document_id, start, end), grade, place.line or 0)


def _number(row: dict[str, str], key: str, place: Place) -> int:
    text = row[key].strip()
    if not _INTEGER.fullmatch(text) or int(text) >= GRADE_LIMIT:
        raise place.error(f"is {shown(row[key])}; must be an integer from 0 on", key)
    return int(text)


def _lines_alike(text: str) -> str:
    """Return text with one kind of line end: spreadsheet programs write their own."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _by_id(table: pa.Table, key: str, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    columns = (table.column(name).to_pylist() for name in names)
    return dict(zip(table.column(key).to_pylist(), zip(*columns, strict=True), strict=True))
