"""What people say of answers: which questions are drawn, the blind sheets, and the file of labels.

Whole questions are drawn, in the order of permanent random numbers: the SHA-256 of their cluster's
name. So any number of them is a simple random sample, a larger one holds the smaller one, and new
answers change nothing of it. A cluster is drawn as a whole. Of a drawn question every distinct
answer is asked about, in an order that does not tell who wrote it.

``answer_labels.jsonl``, one object a line: ``query_id``, ``answer`` (as it was written),
``correct`` (true, false, or null: it cannot be told), ``probability`` with which the question was
drawn, ``by`` and ``at``. Of several lines on one answer the last one counts.

The sheet of claims, filled in, is itself the file of their labels, ``claim_labels.csv``; a larger
one begins with the rows that it has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import pyarrow as pa
from msgspec import Meta

from rag_assets.judges.base import HIGHEST, OF_CLAIMS, ClaimItem, CorrectnessItem
from rag_assets.labels.logs import LogLine, Name, read_log
from rag_assets.labels.sheets import Cells, CsvSheet, cut_note
from rag_assets.plain_text import fitting, is_shown_as
from rag_assets.schemas import ANSWER_LABELS, column_values
from rag_assets.sources.fields import Chance, Place, Text, shown
from rag_assets.store.canonical import permanent_hash

SHEET = CsvSheet(("id", "question", "right_answers", "answer", "correct"), ("correct",))

CLAIMS = CsvSheet(
    ("id", "query_id", "kind", "question", "contexts", "claim", "grade"), answer=("grade",)
)

_CORRECT = {"yes": True, "y": True, "1": True, "no": False, "n": False, "0": False, "?": None}
_ID_DIGITS = 16


def answer_id(item: CorrectnessItem) -> str:
    """Return what finds an answer again, whatever a spreadsheet program does to its text."""
    text = json.dumps([item.query_id, item.text])
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


class AnswerLabel(LogLine, frozen=True, forbid_unknown_fields=True):
    """What somebody says of an answer; ``correct`` is None: it cannot be told."""

    query_id: Name
    answer: Text
    correct: Annotated[bool | None, Meta(description="true, false or null")]
    probability: Chance | None = None
    by: Text | None = None
    at: Text | None = None


def drawn_questions(clusters: Mapping[str, str], n: int) -> list[str]:
    """Draw at least ``n`` questions, or all where there are fewer; in the order of the draw.

    A cluster comes as a whole, so there may be more. ``clusters`` are those of all that may be
    drawn.
    """
    order = sorted(clusters, key=lambda name: (permanent_hash("answers", clusters[name]), name))
    last = clusters[order[n - 1]] if n <= len(order) else None
    end = max((i for i, name in enumerate(order) if clusters[name] == last), default=len(order))
    return order[: end + 1]


def drawn_so_far(clusters: Mapping[str, str], labelled: Collection[str]) -> frozenset[str]:
    """Return the questions that were drawn: all up to the last of those that have labels.

    One before it that has none was left open, or is new; only with it they are a random sample.
    """
    numbers = {query_id: permanent_hash("answers", name) for query_id, name in clusters.items()}
    last = max((numbers[name] for name in labelled if name in numbers), default=None)
    return frozenset(name for name, number in numbers.items() if last and number <= last)


def labelled_questions(labels: pa.Table) -> frozenset[str]:
    """Return the questions that were drawn and labelled, not chosen by hand."""
    return frozenset(labels.filter(labels["probability"].is_valid())["query_id"].to_pylist())


def needs_person(answer: str | None) -> bool:
    """Return whether an answer is asked about: without a word, or failed, it is not correct."""
    return answer is not None and bool(answer.strip())


def sheet_rows(items: Iterable[CorrectnessItem], labels: pa.Table) -> list[CorrectnessItem]:
    """Return what is still to be labelled, question by question, blind within one."""
    labelled = set(column_values(labels, "query_id", "answer"))
    of_question: dict[str, dict[str, CorrectnessItem]] = {}
    for item in items:
        if item.place not in labelled:
            of_question.setdefault(item.query_id, {})[answer_id(item)] = item
    return [rows[name] for rows in of_question.values() for name in sorted(rows)]


def sheet_text(rows: Iterable[CorrectnessItem]) -> str:
    """Return the sheet as CSV, with an empty column ``correct``."""
    texts = ((answer_id(r), r.question, " | ".join(r.golds), r.text) for r in rows)
    return SHEET.text(
        (name, *(fitting(text, cut_note) for text in rest), "") for name, *rest in texts
    )


def read_sheet(file: Path, items: Iterable[CorrectnessItem]) -> tuple[list[AnswerLabel], int]:
    """Return the labels of a sheet on some answers, and how many rows have none.

    Raises:
        DataError: a column is missing, a row is of an answer that nobody gave, its text was edited,
            or ``correct`` says something else than yes, no or ?; names file and line.
    """
    by_id = {answer_id(item): item for item in items}

    def read(cells: Cells, place: Place) -> AnswerLabel:
        answer = by_id.get(cells["id"].strip())
        if answer is None:
            problem = f"{shown(cells['id'])} matches no answer to a drawn question"
            raise place.error(f"{problem}; the answers have changed; write a new sheet", "id")
        if not is_shown_as(cells["answer"], answer.text):
            raise place.error(f"{shown(cells['answer'])} is not the stored answer", "answer")
        word = cells["correct"].strip().lower()
        if word not in _CORRECT:
            raise place.error(f"is {shown(cells['correct'])}; must be yes, no or ?", "correct")
        return AnswerLabel(answer.query_id, answer.text, _CORRECT[word])

    rows, n_open = SHEET.filled(file, read, lambda row: ((row.query_id, row.answer), row.correct))
    return [row for row, _ in rows], n_open


class ClaimLabel(NamedTuple):
    """What somebody says of a claim of a question (None: cannot tell), and the row of the sheet."""

    query_id: str
    grade: int | None
    cells: tuple[str, ...]


def claim_id(item: ClaimItem) -> str:
    """Return what finds a claim again; ids of one answer's claims sort as they stand in it."""
    digest = hashlib.sha256(json.dumps(item.place[:-1]).encode()).hexdigest()
    return f"{digest[:_ID_DIGITS]}-{item.number:04}"


def claim_sheet(items: Iterable[ClaimItem], labels: Mapping[str, ClaimLabel]) -> tuple[str, int]:
    """Return the sheet of claims: what was labelled, then what was not, and how many these are."""
    rows = [label.cells for label in labels.values()]
    for item in items:
        if claim_id(item) not in labels:
            texts = (item.question, "\n".join(item.contexts), item.claim)
            shown_texts = (fitting(text, cut_note) for text in texts)
            rows.append((claim_id(item), item.query_id, item.kind, *shown_texts, ""))
    return CLAIMS.text(rows), len(rows) - len(labels)


def read_claim_labels(file: Path | None) -> dict[str, ClaimLabel]:
    """Return the labels of a sheet of claims by their ids; none where there is no file.

    Raises:
        DataError: it is no such sheet, or a grade is off the scale of its kind.
    """

    def read(cells: Cells, place: Place) -> tuple[str, ClaimLabel]:
        kind, grade = cells["kind"], cells["grade"].strip().removesuffix(".0")
        if kind not in OF_CLAIMS:
            raise place.error(f"is {shown(kind)}; must be {' or '.join(OF_CLAIMS)}", "kind")
        if grade not in ("?", *map(str, range(HIGHEST[kind] + 1))):
            raise place.error(f"is {shown(grade)}; must be 0 to {HIGHEST[kind]}, or ?", "grade")
        row = tuple(cells[name] for name in CLAIMS.columns)
        label = ClaimLabel(cells["query_id"], None if grade == "?" else int(grade), row)
        return cells["id"].strip(), label

    if file is None or not file.is_file():
        return {}
    rows, _ = CLAIMS.filled(file, read, lambda row: (row[0], row[1].grade))
    return dict(row for row, _ in rows)


def read_answer_labels(file: Path) -> pa.Table:
    """Return the labels of a file, one row an answer, sorted: the last line on each."""
    last = {(line.query_id, line.answer): line for line in read_log(file, AnswerLabel)}
    return ANSWER_LABELS.from_rows([last[key].row() for key in sorted(last)])
