"""``judgments.jsonl``: which document, or which quoted passage of it, answers a query."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from rag_assets.datasets.dataset import Read
from rag_assets.datasets.fields import Place, Row, identifier, optional_grade, optional_string
from rag_assets.datasets.jsonl import read_objects
from rag_assets.datasets.lines import read_lines
from rag_assets.datasets.notes import note
from rag_assets.datasets.quotes import KEY as QUOTE
from rag_assets.datasets.quotes import Quotes
from rag_assets.datasets.rows import QrelRows

_KEYS = frozenset({"query_id", "doc_id", QUOTE, "relevance", "evidence_id"})
_A_QUOTE = re.compile(rf'"{QUOTE}"\s*:\s*"')


def has_quotes(path: Path) -> bool:
    """Return whether a line holds a quote; stops at the first and parses nothing.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    return any(_A_QUOTE.search(line) for _, line in read_lines(path))


def read_judgments(path: Path, documents: pa.Table, queries: pa.Table) -> Read:
    """Return the judgments of a file as qrels.

    ``relevance`` is 1 unless given. Rows of a query with the same ``evidence_id`` are
    alternatives; without one, each row is an evidence of its own. Keys that are not understood
    are noted.

    Raises:
        DataError: a line breaks the format, names an unknown id, quotes what is not there exactly
            once, or repeats a judgment.
    """
    rows = QrelRows(documents, queries)
    quotes = Quotes(documents)
    ignored: dict[str, None] = {}
    for line, row in read_objects(path):
        _add(row, Place(path, line), rows, quotes)
        ignored.update(dict.fromkeys(row.keys() - _KEYS))
    about = ("key is not understood and ignored", "keys are not understood and ignored")
    return rows.read(Place(path), note(*about, sorted(ignored)))


def _add(row: Row, place: Place, rows: QrelRows, quotes: Quotes) -> None:
    query_id = identifier(row, "query_id", place)
    document_id = identifier(row, "doc_id", place)
    document_row = rows.resolve(query_id, document_id, place, ("query_id", "doc_id"))
    quote = optional_string(row, QUOTE, place)
    span = quotes.locate(quote, document_row, place) if quote is not None else None
    named = row.get("evidence_id") is not None
    evidence_id = identifier(row, "evidence_id", place) if named else None
    grade = optional_grade(row, "relevance", place, default=1)
    rows.add(place, query_id, document_id, grade, evidence_id, span)
