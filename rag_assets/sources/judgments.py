"""``judgments.jsonl`` or ``.csv``: which document, or which quote of it, answers a query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from rag_assets.sources.csv_rows import read_csv
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    Place,
    Row,
    identifier,
    joined_id,
    optional_grade,
    optional_string,
    shown,
)
from rag_assets.sources.jsonl import read_objects
from rag_assets.sources.lines import read_lines
from rag_assets.sources.notes import note
from rag_assets.sources.problems import about, tolerated
from rag_assets.sources.quotes import KEY as QUOTE
from rag_assets.sources.quotes import Quotes
from rag_assets.sources.rows import QrelRows
from rag_assets.store.canonical import fingerprint
from rag_assets.text_files import suffix
from rag_assets.trec_lines import integral

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
    for line, given in _rows(path):
        row = given
        with tolerated():
            row = _with_id(given, id_parts, Place(path, line))
            _add(row, Place(path, line), rows, quotes)
        ignored.update(dict.fromkeys(row.keys() - _KEYS))
    about = ("key is not understood and ignored", "keys are not understood and ignored")
    return rows.read(Place(path), note(*about, sorted(ignored)))


def _with_id(row: Row, parts: Sequence[str], place: Place) -> Row:
    if "doc_id" in row or not all(part in row for part in parts) or not parts:
        return row
    rest = {key: value for key, value in row.items() if key not in parts}
    return {**rest, "doc_id": joined_id(row, parts, place)}


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    if suffix(path) != ".csv":
        yield from read_objects(path)
        return
    for line, cells in read_csv(path):
        row: dict[str, object] = {
            key: cell for key, cell in cells.items() if cell or key not in _OPTIONAL
        }
        with tolerated():
            if "relevance" in row:
                row["relevance"] = _grade(cells["relevance"], Place(path, line))
            yield line, row


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
    with about(query_id, document_id, evidence_id):
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
