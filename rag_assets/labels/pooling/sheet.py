"""The sheet that people fill in: CSV, which every spreadsheet program opens.

A row asks about one passage. Where only a part of it answers the query, people copy that part into
``evidence``: it becomes the relevant span, and the rest of the passage is judged not relevant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.labels.pooling.pool import Judgment, PooledUnit
from rag_assets.sources.fields import GRADE_LIMIT, Place, shown
from rag_assets.sources.sheets import Sheet, fitting, is_shown_as
from rag_assets.sources.tables import KnownIds

EVIDENCE = "evidence"
TEXTS = ("query_id", "query", "document_id", "start", "end", "title", "text")
SHEET = Sheet((*TEXTS, EVIDENCE, "grade"), frozenset({EVIDENCE}))

SOURCE = "pool"
"""Who judged what a sheet says."""

_INTEGER = re.compile(r"[0-9]{1,10}")


class GradedUnit(NamedTuple):
    """A row of the sheet that has a grade, and the line on which it begins.

    ``evidence`` is the part of the unit that the grade is about; None: all of it.
    """

    unit: PooledUnit
    grade: int
    line: int
    evidence: PooledUnit | None = None

    def judgments(self) -> list[Judgment]:
        """Return the judgments; beside evidence, the whole unit counts as seen: grade 0."""
        if self.evidence is None:
            return [Judgment(self.unit, self.grade, SOURCE, self.line)]
        part = Judgment(self.evidence, self.grade, SOURCE, self.line)
        return [part, Judgment(self.unit, 0, SOURCE, self.line)]


def sheet_text(units: Iterable[PooledUnit], documents: pa.Table, queries: pa.Table) -> str:
    """Return the sheet as CSV, with empty columns to fill in and a byte order mark.

    Of a text that a cell cannot take the beginning is shown, and where the rest stands.

    Args:
        units: what is to be judged, in this order.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
    """
    return SHEET.text(sheet_rows(units, documents, queries))


def sheet_rows(
    units: Iterable[PooledUnit], documents: pa.Table, queries: pa.Table
) -> Iterator[tuple[object, ...]]:
    """Yield the cells of :data:`SHEET` for each unit, the last two empty."""
    texts = _by_id(queries, "query_id", ("text",))
    sources = _by_id(documents, "document_id", ("title", "text"))
    for unit in units:
        title, text = sources[unit.document_id]
        query = fitting(texts[unit.query_id][0], _rest)
        place = (unit.query_id, query, *unit[1:])
        yield (*place, fitting(title, _rest), _passage(unit, text), "", "")


def cut_texts(units: Iterable[PooledUnit], documents: pa.Table) -> int:
    """Return of how many units a sheet shows the beginning only."""
    sources = _by_id(documents, "document_id", ("text",))
    texts = ((unit, sources[unit.document_id][0]) for unit in units)
    return sum(_passage(unit, text) != text[unit.start : unit.end] for unit, text in texts)


def _passage(unit: PooledUnit, text: str) -> str:
    def rest(n_shown: int) -> str:
        where = f"characters {unit.start + n_shown}-{unit.end} of the document"
        return f"\n[... a cell takes no more: read on at {where}]"

    return fitting(text[unit.start : unit.end], rest)


def _rest(n_shown: int) -> str:
    return f" [... cut after {n_shown} characters]"


def read_sheet(file: Path, documents: pa.Table, queries: pa.Table) -> tuple[list[GradedUnit], int]:
    """Return the graded rows of a sheet, and how many have no grade.

    Raises:
        DataError: a column is missing, or a graded row has a grade that is no integer from 0 on,
            an unknown id, a span that the document has not, a text that is no longer at its span,
            a second, different grade, or evidence that is not in its text; the first problem is
            told, the others are counted.
    """
    check = SheetCheck(documents, queries)
    graded: dict[tuple[PooledUnit, PooledUnit | None], GradedUnit] = {}
    problems: list[DataError] = []
    n_empty = 0
    for place, row in SHEET.rows(file):
        if not row["grade"].strip() and not row.get(EVIDENCE, "").strip():
            n_empty += 1
            continue
        try:
            judgment = check.graded(row, place)
            first = graded.setdefault((judgment.unit, judgment.evidence), judgment)
            if first.grade != judgment.grade:
                problem = (
                    f"is {judgment.grade}, but {first.grade} for the same on line {first.line}"
                )
                raise place.error(problem, "grade")
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


class SheetCheck:
    """What a row that people filled in must agree with."""

    def __init__(self, documents: pa.Table, queries: pa.Table) -> None:
        self._queries = KnownIds("query", queries.column("query_id"))
        self._documents = KnownIds("document", documents.column("document_id"))
        self._texts = documents.column("text")

    def graded(self, row: dict[str, str], place: Place) -> GradedUnit:
        """Return a row of complete labels."""
        grade = _number(row, "grade", place)
        unit = self.unit(row, place)
        evidence = self.evidence(row, unit, grade, place)
        return GradedUnit(unit, grade, place.line or 0, None if evidence == unit else evidence)

    def unit(self, row: dict[str, str], place: Place) -> PooledUnit:
        """Return what a row asked about.

        Raises:
            DataError: the query, the document or the span is unknown, or another text stands there.
        """
        query_id, document_id = row["query_id"], row["document_id"]
        self._queries.row(query_id, place, "query_id")
        text = self._text(document_id, place)
        start, end = _number(row, "start", place), _number(row, "end", place)
        if start > end or end > len(text):
            document = f"{shown(document_id)}, of {len(text)} characters"
            problem = f"the span {start}-{end} is not in {document}"
            raise place.error(problem, "end")
        if not is_shown_as(row["text"], text[start:end]):
            problem = (
                f"{shown(row['text'])} is not what stands at characters {start}-{end} of "
                f"{shown(document_id)}; the document changed, or the sheet was edited"
            )
            raise place.error(problem, "text")
        return PooledUnit(query_id, document_id, start, end)

    def evidence(
        self, row: dict[str, str], unit: PooledUnit, grade: int | None, place: Place
    ) -> PooledUnit | None:
        """Return where the copied part of a passage stands; None where nothing was copied.

        Raises:
            DataError: it is not in the passage, is there twice, or the grade is not above 0.
        """
        text = self._text(unit.document_id, place)
        part = _evidence(row.get(EVIDENCE, "").strip(), unit, text, place)
        if part is not None and not grade:
            raise place.error("belongs to a grade from 1 on, not to 0", EVIDENCE)
        return part

    def _text(self, document_id: str, place: Place) -> str:
        text: str = self._texts[self._documents.row(document_id, place, "document_id")].as_py()
        return text


def _evidence(copied: str, unit: PooledUnit, text: str, place: Place) -> PooledUnit | None:
    """Return where the copied part of a passage stands; None where nothing was copied."""
    if not copied:
        return None
    lines = "(?:\r\n|\r|\n)".join(map(re.escape, re.split("\r\n|\r|\n", copied)))
    spans = [match.span() for match in re.finditer(lines, text[unit.start : unit.end])]
    if len(spans) != 1:
        how = f"stands in the text {len(spans)} times" if spans else "is not in the text"
        problem = f"{shown(copied)} {how}; copy a part of the text that is there once"
        raise place.error(problem, EVIDENCE)
    return unit._replace(start=unit.start + spans[0][0], end=unit.start + spans[0][1])


def _number(row: dict[str, str], key: str, place: Place) -> int:
    text = row[key].strip()
    if not _INTEGER.fullmatch(text) or int(text) >= GRADE_LIMIT:
        raise place.error(f"is {shown(row[key])}; must be an integer from 0 on", key)
    return int(text)


def _by_id(table: pa.Table, key: str, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    columns = (table.column(name).to_pylist() for name in names)
    return dict(zip(table.column(key).to_pylist(), zip(*columns, strict=True), strict=True))
