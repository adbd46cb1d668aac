"""``judgments.jsonl`` or ``.csv``: which document, or which quote of it, answers a query.

And :class:`Quotes`, which tells where a quoted passage stands in a document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.input_files import suffix
from rag_assets.sources.dataset import (
    FIRST,
    QUOTE_MOVED,
    QUOTE_TWICE,
    QUOTE_VANISHED,
    Problems,
    Read,
    error_context,
)
from rag_assets.sources.fields import (
    Grade,
    Id,
    Place,
    Position,
    Row,
    Text,
    composed,
    declared,
    joined_id,
    note,
    shown,
)
from rag_assets.sources.row_files import RowFile, read_csv, read_lines
from rag_assets.sources.tables import QrelRows
from rag_assets.store.canonical import fingerprint

QUOTE = "quote"

OTHER_NAMES = {"qid": "query_id", "docno": "doc_id", "docid": "doc_id", "label": "relevance"}
"""As PyTerrier and MIRACL have them."""

MAX_SEARCHED_QUOTES = 500
"""For so many absent quotes the whole corpus is searched."""

_A_QUOTE = re.compile(rf'"{QUOTE}"\s*:\s*"')


class _Judgment(msgspec.Struct):
    query_id: Id
    doc_id: Id
    quote: Text | None = None
    start: Position | None = None
    relevance: Grade | None = None
    evidence_id: Id | None = None
    source: Any = None


_REQUIRED = frozenset({"query_id", "doc_id"})
_NUMBERS = frozenset({"start", "relevance"})
_KEYS = frozenset(_Judgment.__struct_fields__)


def has_quotes(path: Path) -> bool:
    """Return whether a line holds a quote; stops at the first and parses no JSON."""
    if suffix(path) == ".csv":
        return any(cells.get(QUOTE) for _, cells in read_csv(path))
    return any(_A_QUOTE.search(line) for _, line in read_lines(path))


def read_judgments(
    path: Path,
    documents: pa.Table,
    queries: pa.Table,
    problems: Problems = FIRST,
    id_parts: Sequence[str] = (),
) -> Read:
    """Return the judgments of a file as qrels.

    A row names its document by ``doc_id``, or without it by the fields ``id_parts`` that make the
    ids of documents together.

    ``relevance`` is 1 unless given. Rows of a query with the same ``evidence_id`` are
    alternatives; without one, each row is an evidence of its own. ``start`` says which one is
    meant where a quote occurs more than once; ``source``, who judged, is for people. Keys that are
    not understood are noted.
    """
    rows = QrelRows(documents, queries, problems)
    quotes = Quotes(documents)
    ignored: dict[str, None] = {}
    for place, given in RowFile(path, problems).rows():
        taken = {*id_parts, *given}
        row: Row = {
            key if (name := OTHER_NAMES.get(key, key)) in taken else name: value
            for key, value in given.items()
        }
        with problems:
            if "doc_id" not in row and id_parts and row.keys() >= {*id_parts}:
                rest = {key: value for key, value in row.items() if key not in id_parts}
                row = {**rest, "doc_id": joined_id(given, id_parts, place)}
            if suffix(path) == ".csv":
                row = _without_empty_cells(row)
            with error_context(_text(row, "query_id"), _text(row, "doc_id")):
                judgment = declared(row, _Judgment, place, is_text=True)
            _add(judgment, place, rows, quotes)
        ignored.update(dict.fromkeys(row.keys() - _KEYS))
    unused = ("unknown key is ignored", "unknown keys are ignored")
    return rows.read(Place(path), note(*unused, sorted(ignored)))


def _without_empty_cells(row: Row) -> Row:
    """Return a row of CSV as one of JSON: an empty cell of an optional column is absent."""
    cells = {key: cell.strip() if key in _NUMBERS else cell for key, cell in row.items()}
    return {key: cell for key, cell in cells.items() if cell or key in _REQUIRED}


def _text(row: Row, key: str) -> str | None:
    value = row.get(key)
    return value if isinstance(value, str) else None


def _add(row: _Judgment, place: Place, rows: QrelRows, quotes: Quotes) -> None:
    query_id, document_id = str(row.query_id), str(row.doc_id)
    document_row = rows.resolve(query_id, document_id, place, ("query_id", "doc_id"))
    evidence_id = str(row.evidence_id) if row.evidence_id is not None else None
    span = None
    quote = row.quote
    if quote is None and row.start is not None:
        advice = "`start` only says where it stands; leave out both to judge the whole document"
        raise place.error(f"is missing; {advice}", QUOTE)
    if quote is not None and document_row is None:
        # Of a document that is not there, so it has no place in it.
        evidence_id = evidence_id or f"{document_id}#{fingerprint(quote)[:8]}"
    elif quote is not None and document_row is not None:
        with error_context(query_id, document_id, evidence_id):
            span = quotes.locate(quote, document_row, place, row.start)
    grade = 1 if row.relevance is None else row.relevance
    rows.add(place, query_id, document_id, grade, evidence_id, span)


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
        """
        if not quote.strip():
            raise place.error("is blank; leave it out to judge the whole document", QUOTE)
        text = self._texts[row].as_py()
        if start is not None and text.startswith(quote, start):
            return start, start + len(quote)
        first = text.find(quote)
        if first < 0:
            check, problem = self._why_absent(quote, text, row)
            raise place.error(problem, QUOTE, check)
        second = text.find(quote, first + 1)
        if second >= 0:
            problem = f"{shown(quote)} occurs more than once in {self._name(row)}, at characters "
            problem += f"{first} and {second}; quote more, so that it occurs once"
            raise place.error(problem, QUOTE, QUOTE_TWICE)
        return first, first + len(quote)

    def _why_absent(self, quote: str, text: str, row: int) -> tuple[str, str]:
        """Return the kind of problem, and a sentence about it."""
        absent = f"{shown(quote)} is not in {self._name(row)}"
        folded = re.search(r"\s+".join(map(re.escape, quote.split())), text)
        if folded is not None:
            where = f"with other white space, at characters {folded.start()}-{folded.end()}"
            return QUOTE_MOVED, f"{absent} as written, only {where}"
        if " ".join(composed(quote).split()) in " ".join(composed(text).split()):
            form = "in another Unicode normal form (NFC, NFD); copy the quote from the document"
            return QUOTE_MOVED, f"{absent} as written, only {form}"
        if quote in self._titles[row].as_py():
            return QUOTE_MOVED, f"{absent}, only in its title; a quote must be from the text"
        self._absent += 1
        if self._absent <= MAX_SEARCHED_QUOTES:
            holders = pc.indices_nonzero(pc.match_substring(self._texts, quote)).to_pylist()
            if holders:
                return QUOTE_MOVED, f"{absent}; it is in {self._name(holders[0])}"
        return QUOTE_VANISHED, absent

    def _name(self, row: int) -> str:
        return shown(self._ids[row].as_py())
