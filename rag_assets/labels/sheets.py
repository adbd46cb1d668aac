"""CSV sheets that people fill in with a spreadsheet program."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rag_assets.errors import DataError
from rag_assets.plain_text import is_shown_as, plain, shielded
from rag_assets.sources.fields import GRADE_LIMIT, Place, shown
from rag_assets.sources.row_files import read_csv

_INTEGER = re.compile(r"([0-9]{1,10})(?:\.0+)?")  # pandas writes 2.0

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
                    raise place.error(f"contradicts line {where.line}", self.answer[-1])
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
    integer = _INTEGER.fullmatch(cells[key].strip())
    if integer is None or int(integer[1]) >= GRADE_LIMIT:
        raise place.error(f"is {shown(cells[key])}; must be an integer from 0 on", key)
    return int(integer[1])


def shown_span(cells: Cells, key: str, text: str, place: Place) -> tuple[int, int]:
    """Return ``start`` and ``end`` of a row whose cell under ``key`` shows that part of a text.

    Raises:
        DataError: they are no span of the text, or another text stands there.
    """
    start, end = whole_number(cells, "start", place), whole_number(cells, "end", place)
    if start > end or end > len(text) or not is_shown_as(cells[key], text[start:end]):
        where = f"characters {start}-{end} of {shown(cells['document_id'])}"
        why = "the document changed, or the sheet was edited"
        raise place.error(f"{shown(cells[key])} is not the text at {where}; {why}", key)
    return start, end


def cut_note(n_shown: int) -> str:
    """Return what stands in a cell in the place of the rest of a text."""
    return f" [... cut after {n_shown} characters]"
