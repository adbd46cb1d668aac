"""CSV sheets that people fill in with a spreadsheet program, and the one that asks about passages.

A row asks about one passage. Where only a part of it answers the query, people copy that part into
``evidence``: it becomes the relevant span, and the rest of the passage is judged not relevant.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.labels.logs import LoggedJudgment, Range
from rag_assets.labels.pool import PooledUnit, texts_of
from rag_assets.plain_text import fitting, is_shown_as, plain, shielded
from rag_assets.sources.fields import GRADE_LIMIT, Place, shown
from rag_assets.sources.row_files import read_csv
from rag_assets.sources.tables import KnownIds

EVIDENCE = "evidence"
GRADE = "grade"

SOURCE = "pool"
"""Who judged what a sheet says."""

_INTEGER = re.compile(r"[0-9]{1,10}")

Cells = Mapping[str, str]
"""Column -> text of a row."""

Row = TypeVar("Row")


@dataclass(frozen=True)
class CsvSheet:
    """A CSV file that is written for people, and read back when they filled it in.

    Attributes:
        columns: in the order in which they are written.
        answer: the columns that people fill in; a row without any is open.
        optional: those that a sheet that comes back may lack.
    """

    columns: tuple[str, ...]
    answer: tuple[str, ...]
    optional: frozenset[str] = frozenset()

    def text(self, rows: Iterable[Iterable[object]]) -> str:
        """Return the sheet of some rows, with a byte order mark; no cell of it is a formula."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\r\n")
        writer.writerow(self.columns)
        for row in rows:
            writer.writerow([shielded(cell) if isinstance(cell, str) else cell for cell in row])
        return f"\ufeff{stream.getvalue()}"

    def rows(self, file: Path) -> Iterator[tuple[Place, dict[str, str]]]:
        """Yield place and cells of every row, as they were before they were shielded.

        Raises:
            DataError: the file is no CSV, or lacks a column.
        """
        needed = [name for name in self.columns if name not in self.optional]
        for place, cells in read_csv(file):
            missing = [name for name in needed if name not in cells]
            if missing:
                problem = f"lacks the columns {', '.join(missing)}; needed: {', '.join(needed)}"
                raise Place(file, 1).error(problem)
            yield place, {name: plain(cell) for name, cell in cells.items()}

    def filled(
        self,
        file: Path,
        read: Callable[[Cells, Place], Row],
        parts: Callable[[Row], tuple[object, object]],
    ) -> tuple[list[tuple[Row, Place]], int]:
        """Return the rows that were filled in, each once, and how many were not.

        Args:
            file: the sheet.
            read: turns cells into a row.
            parts: row -> what it is about, and what it says; two rows on one thing must say one.

        Raises:
            DataError: the file is no such sheet, or rows are wrong; the first problem is told, the
                others are counted.
        """
        rows: dict[object, tuple[Row, Place]] = {}
        problems: list[DataError] = []
        n_open = 0
        for place, cells in self.rows(file):
            if not any(cells.get(column, "").strip() for column in self.answer):
                n_open += 1
                continue
            try:
                row = read(cells, place)
                about, answer = parts(row)
                first, where = rows.setdefault(about, (row, place))
                if parts(first)[1] != answer:
                    problem = f"says something else than line {where.line} on the same"
                    raise place.error(problem, self.answer[-1])
            except DataError as error:
                problems.append(error)
        refuse(problems)
        return list(rows.values()), n_open


def refuse(problems: list[DataError]) -> None:
    """Raise a DataError for the first problem, with the number of others; nothing without one."""
    if problems:
        others = f" (and {len(problems) - 1} more rows)" if len(problems) > 1 else ""
        raise DataError(f"{problems[0]}{others}; nothing was imported")


def whole_number(cells: Cells, key: str, place: Place) -> int:
    """Return a cell as a number from 0 on; anything else is a DataError."""
    text = cells[key].strip()
    if not _INTEGER.fullmatch(text) or int(text) >= GRADE_LIMIT:
        raise place.error(f"is {shown(cells[key])}; must be an integer from 0 on", key)
    return int(text)


def cut_note(n_shown: int) -> str:
    """Return what stands in a cell in the place of the rest of a text."""
    return f" [... cut after {n_shown} characters]"


SHEET = CsvSheet(
    ("query_id", "query", "document_id", "start", "end", "title", "text", EVIDENCE, GRADE),
    (EVIDENCE, GRADE),
    frozenset({EVIDENCE}),
)


def sheet_text(units: Iterable[PooledUnit], documents: pa.Table, queries: pa.Table) -> str:
    """Return the sheet of some units, in their order, as CSV with empty columns to fill in.

    Of a text that a cell cannot take the beginning is shown, and where the rest stands.
    """
    return SHEET.text(sheet_rows(units, documents, queries))


def sheet_rows(
    units: Iterable[PooledUnit], documents: pa.Table, queries: pa.Table
) -> Iterator[tuple[object, ...]]:
    """Yield the cells of :data:`SHEET` for each unit, the last two empty."""
    questions = dict(zip(*(queries[c].to_pylist() for c in ("query_id", "text")), strict=True))
    titles = dict(zip(*(documents[c].to_pylist() for c in ("document_id", "title")), strict=True))
    texts = texts_of(documents)
    for unit in units:
        query, title = (
            fitting(text, cut_note) for text in (questions[unit.query_id], titles[unit.document_id])
        )
        passage = _passage(unit, texts[unit.document_id])
        yield unit.query_id, query, *unit[1:], title, passage, "", ""


def cut_texts(units: Iterable[PooledUnit], documents: pa.Table) -> int:
    """Return of how many units a sheet shows the beginning only."""
    texts = texts_of(documents)
    pairs = ((unit, texts[unit.document_id]) for unit in units)
    return sum(_passage(unit, text) != text[unit.start : unit.end] for unit, text in pairs)


def _passage(unit: PooledUnit, text: str) -> str:
    def rest(n_shown: int) -> str:
        where = f"characters {unit.start + n_shown}-{unit.end} of the document"
        return f"\n[... a cell takes no more: read on at {where}]"

    return fitting(text[unit.start : unit.end], rest)


def read_sheet(
    file: Path, documents: pa.Table, queries: pa.Table
) -> tuple[list[tuple[LoggedJudgment, Place]], int]:
    """Return the graded rows of a sheet with their places, and how many have no grade."""
    check = SheetCheck(documents, queries)

    def read(cells: Cells, place: Place) -> LoggedJudgment:
        grade = whole_number(cells, GRADE, place)
        unit = check.unit(cells, place)
        evidence = check.evidence(cells, unit, grade, place)
        is_whole = evidence == ((unit.start, unit.end),)
        return LoggedJudgment(*unit, grade, source=SOURCE, evidence=() if is_whole else evidence)

    return SHEET.filled(file, read, lambda row: ((row.item, row.evidence), row.grade))


class SheetCheck:
    """What a row that people filled in must agree with."""

    def __init__(self, documents: pa.Table, queries: pa.Table) -> None:
        self._queries = KnownIds("query", queries.column("query_id"))
        self._documents = KnownIds("document", documents.column("document_id"))
        self._texts = documents.column("text")

    def unit(self, cells: Cells, place: Place) -> PooledUnit:
        """Return what a row asked about.

        Raises:
            DataError: the query, the document or the span is unknown, or another text stands there.
        """
        query_id, document_id = cells["query_id"], cells["document_id"]
        self._queries.row(query_id, place, "query_id")
        text = self._text(document_id, place)
        start, end = whole_number(cells, "start", place), whole_number(cells, "end", place)
        if start > end or end > len(text) or not is_shown_as(cells["text"], text[start:end]):
            problem = (
                f"{shown(cells['text'])} is not what stands at characters {start}-{end} of "
                f"{shown(document_id)}; the document changed, or the sheet was edited"
            )
            raise place.error(problem, "text")
        return PooledUnit(query_id, document_id, start, end)

    def evidence(
        self, cells: Cells, unit: PooledUnit, grade: int | None, place: Place
    ) -> tuple[Range, ...]:
        """Return where the copied part of a passage stands; none where nothing was copied.

        Raises:
            DataError: it is not in the passage, is there twice, or the grade is not above 0.
        """
        copied = cells.get(EVIDENCE, "").strip()
        if not copied:
            return ()
        lines = "(?:\r\n|\r|\n)".join(map(re.escape, re.split("\r\n|\r|\n", copied)))
        passage = self._text(unit.document_id, place)[unit.start : unit.end]
        spans = [match.span() for match in re.finditer(lines, passage)]
        if len(spans) != 1:
            how = f"stands in the text {len(spans)} times" if spans else "is not in the text"
            problem = f"{shown(copied)} {how}; copy a part of the text that is there once"
            raise place.error(problem, EVIDENCE)
        if not grade:
            raise place.error("belongs to a grade from 1 on, not to 0", EVIDENCE)
        return ((unit.start + spans[0][0], unit.start + spans[0][1]),)

    def _text(self, document_id: str, place: Place) -> str:
        text: str = self._texts[self._documents.row(document_id, place, "document_id")].as_py()
        return text
