"""The sheet on which people say which generated questions are good, as CSV.

It holds all that a question is made of, so it can be read back on another machine; the quote is
compared with the documents as they are then.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.labels.generation.question_generation import QUESTIONS
from rag_assets.sources.csv_files import (
    CELL_MAY_BE_CUT,
    fitting,
    is_shown_as,
    plain,
    read_csv,
    shielded,
)
from rag_assets.sources.fields import Place, checked_id, shown

COLUMNS = (
    "keep",
    "question",
    "answer",
    "quote",
    "document_id",
    "start",
    "end",
    "chunk_id",
    "query_id",
    "source",
)
YES = ("yes", "y", "1", "x")
NO = ("no", "n", "0")


class Reviewed(NamedTuple):
    """What a sheet says.

    Attributes:
        questions: table of :data:`QUESTIONS`, those with a yes, worded as on the sheet.
        n_refused: questions with a no.
        n_open: questions without either, which are not taken.
    """

    questions: pa.Table
    n_refused: int
    n_open: int


def review_sheet(questions: pa.Table, documents: pa.Table) -> str:
    """Return the sheet, with an empty column ``keep`` and a byte order mark.

    Args:
        questions: table of :data:`QUESTIONS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
    """
    texts = _texts(documents)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in QUESTIONS.check(questions).to_pylist():
        quote = texts[row["document_id"]][row["start"] : row["end"]]
        cells = {**row, "keep": "", "question": row["text"], "quote": fitting(quote, _no_note)}
        writer.writerow([_cell(cells[name]) for name in COLUMNS])
    return f"\ufeff{stream.getvalue()}"


def _no_note(_n_shown: int) -> str:
    return ""


def _cell(value: object) -> object:
    if value is None:
        return ""
    return shielded(value) if isinstance(value, str) else value


def read_review(file: Path, documents: pa.Table) -> Reviewed:
    """Return the questions that people want to keep, in the order of the sheet.

    Args:
        file: the sheet; rows may be missing, moved, and questions be worded better.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`, as they are now.

    Raises:
        DataError: a column is missing, a question is there twice, ``keep`` is no yes and no no, or
            a document does not hold the quote (any more).
    """
    texts = _texts(documents)
    accepted: list[dict[str, object]] = []
    lines: dict[str, int] = {}
    n_refused = n_rows = 0
    for line, cells in read_csv(file):
        place = Place(file, line)
        query_id = _new_id(cells, lines, place)
        n_rows += 1
        verdict = cells["keep"].strip().lower()
        if verdict in YES:
            accepted.append({**_question(cells, texts, place), "query_id": query_id})
        elif verdict in NO:
            n_refused += 1
        elif verdict:
            allowed = ", ".join((*YES, *NO))
            raise place.error(f"is {shown(cells['keep'])}; allowed: {allowed}, or nothing", "keep")
    return Reviewed(QUESTIONS.from_rows(accepted), n_refused, n_rows - len(accepted) - n_refused)


def _new_id(cells: Mapping[str, str], lines: dict[str, int], place: Place) -> str:
    missing = [name for name in COLUMNS if name not in cells]
    if missing:
        raise DataError(f"lacks the columns {', '.join(missing)}", file=place.file, line=1)
    query_id = checked_id(plain(cells["query_id"]), place, "query_id")
    first = lines.setdefault(query_id, place.line or 0)
    if first != place.line:
        raise place.error(f"{shown(query_id)} was on line {first} already", "query_id")
    return query_id


def _question(
    cells: Mapping[str, str], texts: Mapping[str, str], place: Place
) -> dict[str, object]:
    document_id = plain(cells["document_id"])
    if document_id not in texts:
        raise place.error(f"{shown(document_id)} is none of the documents", "document_id")
    start, end = _number(cells, "start", place), _number(cells, "end", place)
    if not _is_quoted(texts[document_id][start:end], plain(cells["quote"])):
        problem = f"is not what {shown(document_id)} says from {start} to {end} (any more)"
        raise place.error(problem, "quote")
    return {
        "text": _wording(cells, place),
        "answer": plain(cells["answer"]).strip() or None,
        "chunk_id": plain(cells["chunk_id"]),
        "document_id": document_id,
        "start": start,
        "end": end,
        "source": plain(cells["source"]),
    }


def _is_quoted(span: str, quote: str) -> bool:
    """Compare without regard to blanks: programs write line ends as they like."""
    span_words, quote_words = " ".join(span.split()), " ".join(quote.split())
    cut = len(quote) >= CELL_MAY_BE_CUT and span_words.startswith(quote_words)
    return quote_words == span_words or cut or is_shown_as(quote, span)


def _number(cells: Mapping[str, str], key: str, place: Place) -> int:
    text = cells[key].strip()
    if not (text.isascii() and text.isdigit()):
        raise place.error(f"is {shown(text)}; must be a whole number", key)
    return int(text)


def _wording(cells: Mapping[str, str], place: Place) -> str:
    text = " ".join(plain(cells["question"]).split())
    if not text:
        raise place.error("is blank; write no under keep to drop it", "question")
    return text


def _texts(documents: pa.Table) -> dict[str, str]:
    ids, texts = (documents.column(name).to_pylist() for name in ("document_id", "text"))
    return dict(zip(ids, texts, strict=True))
