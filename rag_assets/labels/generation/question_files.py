"""Generated questions as files: a CSV sheet on which people say which are good, and a dataset.

The sheet holds all that a question is made of, so it can be read back on another machine; the quote
is compared with the documents as they are then. The dataset is a folder that is read like any
other.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from rag_assets.errors import StoreError, UsageError
from rag_assets.labels.generation.question_generation import QUESTIONS
from rag_assets.labels.generation.question_tables import TAG, query_fields
from rag_assets.labels.pooling.pool import texts_of
from rag_assets.labels.pooling.sheet import Cells, CsvSheet, whole_number
from rag_assets.plain_text import CELL_MAY_BE_CUT, fitting, is_shown_as
from rag_assets.sources.fields import Place, checked_id, shown
from rag_assets.sources.labelled_folder import JSONL_DOCUMENTS, JUDGMENTS, QUERIES
from rag_assets.sources.writers import document_lines, write_lines
from rag_assets.store.atomic import TEMPORARY_MARK, atomic_directory
from rag_assets.store.canonical import canonical_json

Row: TypeAlias = dict[str, object]
_CHUNK = ("document_id", "start", "end", "chunk_id")
SHEET = CsvSheet(("keep", "question", "answer", "quote", *_CHUNK, "query_id", "source"), ("keep",))
_KEEP = {"": None, **dict.fromkeys(("yes", "y", "1", "x"), True)}
_KEEP |= dict.fromkeys(("no", "n", "0"), False)


class SheetQuestion(NamedTuple):
    """A row of a sheet; ``verdict`` is None where nothing stands under ``keep``."""

    query_id: str
    verdict: bool | None
    cells: Cells
    place: Place


class Reviewed(NamedTuple):
    """What a sheet says.

    ``questions`` is a table of :data:`QUESTIONS`, those with a yes, worded as on the sheet; then
    how many have a no, and how many neither, which are not taken.
    """

    questions: pa.Table
    n_refused: int
    n_open: int


def review_sheet(questions: pa.Table, documents: pa.Table) -> str:
    """Return the sheet, with an empty column ``keep`` and a byte order mark."""
    texts = texts_of(documents)
    rows = []
    for row in QUESTIONS.check(questions).to_pylist():
        quote = fitting(texts[row["document_id"]][row["start"] : row["end"]], lambda _: "")
        cells = {**row, "keep": "", "question": row["text"], "quote": quote}
        rows.append([cells[name] for name in SHEET.columns])  # None is an empty cell
    return SHEET.text(rows)


def read_review(file: Path, documents: pa.Table) -> Reviewed:
    """Return the questions that people want to keep, in the order of the sheet.

    Rows may be missing, moved, and questions be worded better.

    Raises:
        DataError: a column is missing, a question is there twice, ``keep`` is no yes and no no, or
            a document does not hold the quote (any more).
    """
    texts = texts_of(documents)
    accepted: list[dict[str, object]] = []
    n_refused = n_open = 0
    for row in _rows(file):
        if row.verdict:
            accepted.append(_question(row, texts))
        n_refused += row.verdict is False
        n_open += row.verdict is None
    return Reviewed(QUESTIONS.from_rows(accepted), n_refused, n_open)


def reviewed_questions(questions: pa.Table, file: Path) -> tuple[pa.Table, list[str]]:
    """Return questions without those that people refused, the others worded as people wish.

    And lines on what became of how many. A question that is not on the sheet, or has no verdict
    there, stays as it is; rows of other questions say nothing.
    """
    verdicts = {row.query_id: _wording(row) if row.verdict else row.verdict for row in _rows(file)}
    rows = questions.to_pylist()
    texts = [verdicts.get(row["query_id"]) for row in rows]
    left = [
        {**row, "text": text or row["text"]}
        for row, text in zip(rows, texts, strict=True)
        if text is not False
    ]
    n_refused, n_open = len(rows) - len(left), texts.count(None)
    notes = [f"{n_refused} left out: refused by people"] if n_refused else []
    notes += [f"{n_open} of {len(rows)} not reviewed by people"] if n_open else []
    return QUESTIONS.from_rows(left), notes


def _rows(file: Path) -> Iterator[SheetQuestion]:
    lines: dict[str, int] = {}
    for place, cells in SHEET.rows(file):
        query_id = checked_id(cells["query_id"], place, "query_id")
        first = lines.setdefault(query_id, place.line or 0)
        if first != place.line:
            raise place.error(f"{shown(query_id)} was on line {first} already", "query_id")
        word = cells["keep"].strip().lower()
        if word not in _KEEP:
            allowed = ", ".join(filter(None, _KEEP))
            raise place.error(f"is {shown(cells['keep'])}; allowed: {allowed}, or nothing", "keep")
        yield SheetQuestion(query_id, _KEEP[word], cells, place)


def _question(row: SheetQuestion, texts: Mapping[str, str]) -> dict[str, object]:
    cells, document_id = row.cells, row.cells["document_id"]
    if document_id not in texts:
        problem = f"{shown(document_id)} is not one of the documents"
        raise row.place.error(problem, "document_id")
    start, end = (whole_number(cells, name, row.place) for name in ("start", "end"))
    if not _is_quoted(texts[document_id][start:end], cells["quote"]):
        problem = f"is not what {shown(document_id)} says from {start} to {end} (any more)"
        raise row.place.error(problem, "quote")
    copied = {name: cells[name] for name in ("chunk_id", "document_id", "source")}
    answer = cells["answer"].strip() or None
    lead = {"query_id": row.query_id, "text": _wording(row), "answer": answer}
    return {**lead, **copied, "start": start, "end": end}


def _is_quoted(span: str, quote: str) -> bool:
    """Compare without regard to blanks: programs write line ends as they like."""
    span_words, quote_words = " ".join(span.split()), " ".join(quote.split())
    cut = len(quote) >= CELL_MAY_BE_CUT and span_words.startswith(quote_words)
    return quote_words == span_words or cut or is_shown_as(quote, span)


def _wording(row: SheetQuestion) -> str:
    text = " ".join(row.cells["question"].split())
    if not text:
        raise row.place.error("is blank; write no under keep to drop it", "question")
    return text


EXPERIMENT = "experiment.yaml"
FILES = frozenset({JSONL_DOCUMENTS, f"{QUERIES}.jsonl", f"{JUDGMENTS}.jsonl", EXPERIMENT})

_YAML = """\
dataset: {format: jsonl}
# Questions from one document are not independent: intervals and tests draw documents.
statistics: {cluster: query.source_document}
"""


def check_free(folder: Path, *, force: bool) -> None:
    """Check that a dataset may be written as ``folder``.

    Raises:
        UsageError: something is there, and it is no earlier dataset that ``force`` gives up.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise UsageError(f"{folder}: exists and is not a folder; choose a new one")
    names = {path.name for path in folder.iterdir()}
    if names - FILES:
        problem = f"holds {min(names - FILES)}, not a file of a generated dataset"
        raise UsageError(f"{folder}: {problem}; choose a new folder")
    if names and not force:
        raise UsageError(f"{folder}: already exists; choose a new folder, or replace it (force)")


def write_folder(
    questions: pa.Table, documents: pa.Table, folder: Path, *, force: bool = False
) -> None:
    """Write ``folder``, which is there in the end only when all of it is.

    It holds all documents that are searched, those of the questions among them. Its
    ``experiment.yaml`` makes intervals and tests cluster by ``source_document``. ``force`` replaces
    an earlier dataset.

    Raises:
        UsageError: see :func:`check_free`.
        StoreError: the folder cannot be written.
    """
    check_free(folder, force=force)
    queries, judgments = _dataset_rows(questions, documents)
    aside = folder.with_name(f"{folder.name}{TEMPORARY_MARK}{uuid.uuid4().hex[:12]}")
    with atomic_directory(folder) as temporary:
        write_lines(temporary / JSONL_DOCUMENTS, document_lines(documents))
        write_lines(temporary / f"{QUERIES}.jsonl", map(canonical_json, queries))
        write_lines(temporary / f"{JUDGMENTS}.jsonl", map(canonical_json, judgments))
        (temporary / EXPERIMENT).write_text(_YAML, encoding="utf-8")
        if folder.is_dir() and any(folder.iterdir()):
            folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def check_new_file(file: Path, *, force: bool) -> None:
    """Check that a sheet may be written as ``file``.

    Raises:
        UsageError: it is there, perhaps with the work of people in it, or is a folder.
        StoreError: its folder cannot be looked into.
    """
    try:
        if file.is_dir():
            raise UsageError(f"{file}: is a folder; name a file")
        if file.exists() and not force:
            raise UsageError(f"{file}: already exists; choose another, or replace it (force)")
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error.strerror or error}") from error


def _dataset_rows(questions: pa.Table, documents: pa.Table) -> tuple[list[Row], list[Row]]:
    """Return a query and a judgment for each question, as ``sources.labelled_folder`` reads them.

    The judgment quotes the span that the question was made from, with its place; a span that is
    blank, as that of a document without text, is left out: then the whole document is judged.
    """
    texts = texts_of(documents)
    queries: list[Row] = []
    judgments: list[Row] = []
    for row in QUESTIONS.check(questions).to_pylist():
        head = {"query_id": row["query_id"], "text": row["text"], "tags": [TAG]}
        queries.append({**head, **query_fields(row)})
        quote = texts[row["document_id"]][row["start"] : row["end"]]
        span = {"quote": quote, "start": row["start"]} if quote.strip() else {}
        judged = {"query_id": row["query_id"], "doc_id": row["document_id"]}
        judgments.append({**judged, **span, "relevance": 1, "source": row["source"]})
    return queries, judgments
