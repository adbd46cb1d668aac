"""The sheet on which people say which generated questions are good, as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.datasets.csv_rows import read_csv
from rag_assets.datasets.fields import Place, shown
from rag_assets.datasets.spreadsheet_cells import plain, shielded
from rag_assets.errors import DataError
from rag_assets.query_sets.generation.question_generation import QUESTIONS

COLUMNS = ("query_id", "question", "answer", "document_id", "start", "end", "text", "keep")
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
    ids, texts = (documents.column(name).to_pylist() for name in ("document_id", "text"))
    text_of = dict(zip(ids, texts, strict=True))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in QUESTIONS.check(questions).to_pylist():
        text = text_of[row["document_id"]][row["start"] : row["end"]]
        head = (row["query_id"], row["text"], row["answer"] or "", row["document_id"])
        cells = [*map(shielded, head), row["start"], row["end"], shielded(text), ""]
        writer.writerow(cells)
    return f"\ufeff{stream.getvalue()}"


def read_review(file: Path, questions: pa.Table) -> Reviewed:
    """Return the questions that people want to keep.

    Args:
        file: the sheet; rows may be missing, moved, and questions be worded better.
        questions: table of :data:`QUESTIONS` from which the sheet was made.

    Raises:
        DataError: a column is missing, a question is unknown or there twice, or ``keep`` is no
            yes and no no.
    """
    rows = {row["query_id"]: row for row in QUESTIONS.check(questions).to_pylist()}
    kept: dict[str, dict[str, object]] = {}
    seen: dict[str, int] = {}
    n_refused = 0
    for line, cells in read_csv(file):
        place = Place(file, line)
        row = rows[_known_id(cells, rows, seen, place)]
        verdict = cells["keep"].strip().lower()
        if verdict in YES:
            kept[row["query_id"]] = {**row, "text": _wording(cells, place)}
        elif verdict in NO:
            n_refused += 1
        elif verdict:
            allowed = ", ".join((*YES, *NO))
            raise place.error(f"is {shown(cells['keep'])}; allowed: {allowed}, or nothing", "keep")
    ordered = [kept[query_id] for query_id in rows if query_id in kept]
    n_open = len(rows) - len(kept) - n_refused
    return Reviewed(QUESTIONS.from_rows(ordered), n_refused, n_open)


def _known_id(
    cells: dict[str, str], rows: dict[str, object], seen: dict[str, int], place: Place
) -> str:
    missing = [name for name in ("query_id", "question", "keep") if name not in cells]
    if missing:
        raise DataError(f"lacks the columns {', '.join(missing)}", file=place.file, line=1)
    query_id = plain(cells["query_id"])
    if query_id not in rows:
        raise place.error(f"{shown(query_id)} is none of the {len(rows)} questions", "query_id")
    first = seen.setdefault(query_id, place.line or 0)
    if first != place.line:
        raise place.error(f"{shown(query_id)} was on line {first} already", "query_id")
    return query_id


def _wording(cells: dict[str, str], place: Place) -> str:
    text = " ".join(plain(cells["question"]).split())
    if not text:
        raise place.error("is blank; write no under keep to drop it", "question")
    return text
