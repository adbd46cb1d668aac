"""``judgments.jsonl`` or ``.csv``: which document, or which quote of it, answers a query.

And :class:`Quotes`, which tells where a quoted passage stands in a document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.sources.csv_files import read_csv
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    Place,
    Row,
    identifier,
    joined_id,
    note,
    optional_grade,
    optional_string,
    shown,
)
from rag_assets.sources.lines import read_lines
from rag_assets.sources.problems import (
    FORMAT,
    QUOTE_MOVED,
    QUOTE_TWICE,
    QUOTE_VANISHED,
    error_context,
    parse_each,
    skipping_bad_rows,
)
from rag_assets.sources.row_files import Rows, row_file
from rag_assets.sources.rows import QrelRows
from rag_assets.store.canonical import fingerprint
from rag_assets.text_files import suffix
from rag_assets.trec_lines import integral

QUOTE = "quote"

MAX_SEARCHED_QUOTES = 500
"""For so many absent quotes the whole corpus is searched."""

START = "start"
SOURCE = "source"
_KEYS = frozenset({"query_id", "doc_id", QUOTE, START, "relevance", "evidence_id", SOURCE})
_OPTIONAL = frozenset({QUOTE, START, "relevance", "evidence_id", SOURCE})
_A_QUOTE = re.compile(rf'"{QUOTE}"\s*:\s*"')


def has_quotes(path: Path) -> bool:
    """Return whether a line holds a quote; stops at the first and parses no JSON.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    if suffix(path) == ".csv":
        return any(cells.get(QUOTE) for _, cells in read_csv(path))
    return any(_A_QUOTE.search(line) for _, line in read_lines(path))


def read_judgments(
    path: Path, documents: pa.Table, queries: pa.Table, id_parts: Sequence[str] = ()
) -> Read:
    """Return the judgments of a file as qrels.

    A row names its document by ``doc_id``, or without it by the fields ``id_parts`` that make the
    ids of documents together.

    ``relevance`` is 1 unless given. Rows of a query with the same ``evidence_id`` are
    alternatives; without one, each row is an evidence of its own. ``start`` says which one is
    meant where a quote occurs more than once; ``source``, who judged, is for people. Keys that are
    not understood are noted.

    Raises:
        DataError: a line breaks the format, names an unknown id, quotes what is not there exactly
            once, or repeats a judgment.
    """
    rows = QrelRows(documents, queries)
    quotes = Quotes(documents)
    ignored: dict[str, None] = {}
    for place, given in _rows(path):
        row = given
        with skipping_bad_rows():
            row = _with_id(given, id_parts, place)
            _add(row, place, rows, quotes)
        ignored.update(dict.fromkeys(row.keys() - _KEYS))
    unused = ("key is not understood and ignored", "keys are not understood and ignored")
    return rows.read(Place(path), note(*unused, sorted(ignored)))


def _with_id(row: Row, parts: Sequence[str], place: Place) -> Row:
    if "doc_id" in row or not all(part in row for part in parts) or not parts:
        return row
    rest = {key: value for key, value in row.items() if key not in parts}
    return {**rest, "doc_id": joined_id(row, parts, place)}


def _rows(path: Path) -> Rows:
    rows = row_file(path).rows()
    if suffix(path) != ".csv":
        return rows
    return parse_each(lambda row: (row[0], _of_cells(*row)), rows)


def _of_cells(place: Place, cells: Row) -> Row:
    """Return a row of CSV as one of JSON: without empty cells, its grade a number."""
    row = {key: cell for key, cell in cells.items() if cell or key not in _OPTIONAL}
    return {**row, "relevance": _grade(row["relevance"], place)} if "relevance" in row else row


def _grade(cell: str, place: Place) -> int:
    grade = integral(cell.strip())
    if grade is None:
        raise place.error(f"is {shown(cell)}; a grade must be an integer", "relevance")
    return grade


def _add(row: Row, place: Place, rows: QrelRows, quotes: Quotes) -> None:
    query_id = identifier(row, "query_id", place)
    document_id = identifier(row, "doc_id", place)
    document_row = rows.resolve(query_id, document_id, place, ("query_id", "doc_id"))
    named = row.get("evidence_id") is not None
    evidence_id = identifier(row, "evidence_id", place) if named else None
    with error_context(query_id, document_id, evidence_id):
        quote = optional_string(row, QUOTE, place)
        start = _start(row, place)
        span = None
        if quote is not None and document_row is not None:
            span = quotes.locate(quote, document_row, place, start)
        elif quote is not None:  # of a document that is not there, so it has no place in it
            evidence_id = evidence_id or f"{document_id}#{fingerprint(quote)[:8]}"
        grade = optional_grade(row, "relevance", place, default=1)
    rows.add(place, query_id, document_id, grade, evidence_id, span)


def _start(row: Row, place: Place) -> int | None:
    value = row.get(START)
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise place.error("must be the number of the quote's first character, from 0", START)


class Unlocated(NamedTuple):
    """Why a quote has no place: the kind of problem, and a sentence about it."""

    check: str
    problem: str


class Quotes:
    """Finds quotes in the texts of a documents table."""

    def __init__(self, documents: pa.Table) -> None:
        """Search in ``documents`` (``schemas.DOCUMENTS``)."""
        self._ids = documents.column("document_id")
        self._titles = documents.column("title")
        self._texts = documents.column("text")
        self._absent = 0

    def locate(
        self, quote: str, row: int, place: Place, start: int | None = None
    ) -> tuple[int, int]:
        """Return the span ``[start, end)`` of a quote in the text of document ``row``.

        Spans count characters (Unicode code points) of the text. A quote that stands at ``start``
        is that one, however often it occurs; one that moved is looked for.

        Raises:
            DataError: the quote is blank, not there, or there more than once.
        """
        span = self.find(quote, row, start)
        if isinstance(span, Unlocated):
            raise place.error(span.problem, QUOTE, span.check)
        return span

    def find(self, quote: str, row: int, said: int | None = None) -> tuple[int, int] | Unlocated:
        """Return the span of a quote in the text of document ``row``, or why there is none.

        ``said`` is where the label says that the quote begins.
        """
        if not quote.strip():
            return Unlocated(FORMAT, "is blank; leave it out to judge the whole document")
        text = self._texts[row].as_py()
        if said is not None and text.startswith(quote, said):
            return said, said + len(quote)
        start = text.find(quote)
        if start < 0:
            return self._why_absent(quote, text, row)
        second = text.find(quote, start + 1)
        if second >= 0:
            return Unlocated(
                QUOTE_TWICE,
                f"{shown(quote)} occurs more than once in {self._name(row)}, at characters "
                f"{start} and {second}; quote more, so that it occurs once",
            )
        return start, start + len(quote)

    def _why_absent(self, quote: str, text: str, row: int) -> Unlocated:
        absent = f"{shown(quote)} is not in {self._name(row)}"
        folded = re.search(r"\s+".join(map(re.escape, quote.split())), text)
        if folded is not None:
            span = f"{folded.start()}-{folded.end()}"
            problem = f"{absent} as written, only with other white space, at characters {span}"
            return Unlocated(QUOTE_MOVED, problem)
        if quote in self._titles[row].as_py():
            problem = f"{absent}, only in its title; a quote must be from the text"
            return Unlocated(QUOTE_MOVED, problem)
        self._absent += 1
        if self._absent > MAX_SEARCHED_QUOTES:
            return Unlocated(QUOTE_VANISHED, absent)
        holders = pc.indices_nonzero(pc.match_substring(self._texts, quote)).to_pylist()
        if holders:
            return Unlocated(QUOTE_MOVED, f"{absent}; it is in {self._name(holders[0])}")
        return Unlocated(QUOTE_VANISHED, absent)

    def _name(self, row: int) -> str:
        return shown(self._ids[row].as_py())
