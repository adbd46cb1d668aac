"""What people say of answers: which questions are drawn, the blind sheet, and the file of labels.

Whole questions are drawn, in the order of permanent random numbers: the SHA-256 of their cluster's
name. So any number of them is a simple random sample, a larger one holds the smaller one, and new
answers change nothing of it. A cluster is drawn as a whole. Of a drawn question every distinct
answer is asked about, in an order that does not tell who wrote it.

``answer_labels.jsonl``, one object a line: ``query_id``, ``answer`` (as it was written),
``correct`` (true, false, or null: it cannot be told), ``probability`` with which the question was
drawn, ``by`` and ``at``. Of several lines on one answer the last one counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Meta

from rag_assets.schemas import ANSWER_LABELS
from rag_assets.sources.fields import Chance, Id, Place, Text, checked_id, shown
from rag_assets.sources.row_files import read_declared
from rag_assets.sources.sheets import Sheet, fitting, is_shown_as
from rag_assets.store.atomic import append_line

SHEET = Sheet(("id", "question", "right_answers", "answer", "correct"))
YES, NO, CANNOT_TELL = ("yes", "y", "1"), ("no", "n", "0"), ("?",)

_ID_DIGITS = 16


class AskedAnswer(NamedTuple):
    """One answer that people may be asked about: its question, and what is right."""

    query_id: str
    question: str
    golds: tuple[str, ...]
    answer: str

    @property
    def id(self) -> str:
        """What finds the answer again, whatever a spreadsheet program does to its text."""
        text = json.dumps([self.query_id, self.answer])
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


class AnswerLabel(NamedTuple):
    """What somebody says of an answer; None: it cannot be told."""

    asked: AskedAnswer
    correct: bool | None


def drawn_questions(clusters: Mapping[str, str], n: int) -> list[str]:
    """Draw at least ``n`` questions, or all where there are fewer; in the order of the draw.

    Args:
        clusters: question -> its cluster, of all that may be drawn.
        n: how many; a cluster comes as a whole, so there may be more.
    """
    order = sorted(clusters, key=lambda one: (_permanent_number(clusters[one]), one))
    last = clusters[order[n - 1]] if n <= len(order) else None
    end = max((i for i, one in enumerate(order) if clusters[one] == last), default=len(order))
    return order[: end + 1]


def drawn_so_far(clusters: Mapping[str, str], labelled: Collection[str]) -> frozenset[str]:
    """Return the questions that were drawn: all up to the last of those that have labels.

    One before it that has none was left open, or is new; only with it they are a random sample.

    Args:
        clusters: as for :func:`drawn_questions`.
        labelled: questions of which an answer was drawn and labelled; others may be among them.
    """
    numbers = {query_id: _permanent_number(name) for query_id, name in clusters.items()}
    last = max((numbers[one] for one in labelled if one in numbers), default=None)
    return frozenset(one for one, number in numbers.items() if last and number <= last)


def labelled_questions(labels: pa.Table) -> frozenset[str]:
    """Return the questions that were drawn and labelled, not chosen by hand.

    Args:
        labels: table of :data:`rag_assets.schemas.ANSWER_LABELS`.
    """
    columns = (labels[name].to_pylist() for name in ("query_id", "probability"))
    return frozenset(one for one, chance in zip(*columns, strict=True) if chance is not None)


def _permanent_number(cluster: str) -> bytes:
    return hashlib.sha256(f"answers\0{cluster}".encode()).digest()


def needs_person(answer: str | None) -> bool:
    """Return whether an answer is asked about: without a word, or failed, it is not correct."""
    return answer is not None and bool(answer.strip())


def sheet_rows(asked: Iterable[AskedAnswer], labels: pa.Table) -> list[AskedAnswer]:
    """Return what is still to be labelled, question by question, blind within one.

    Args:
        asked: the answers to drawn questions in the order of the draw, some several times.
        labels: table of :data:`rag_assets.schemas.ANSWER_LABELS`.
    """
    columns = (labels[name].to_pylist() for name in ("query_id", "answer"))
    known = set(zip(*columns, strict=True))
    of_question: dict[str, dict[str, AskedAnswer]] = {}
    for one in asked:
        if (one.query_id, one.answer) not in known:
            of_question.setdefault(one.query_id, {})[one.id] = one
    return [rows[name] for rows in of_question.values() for name in sorted(rows)]


def sheet_text(rows: Iterable[AskedAnswer]) -> str:
    """Return the sheet as CSV, with an empty column ``correct`` and a byte order mark."""
    texts = ((row.id, row.question, " | ".join(row.golds), row.answer) for row in rows)
    return SHEET.text((name, *(fitting(text, _rest) for text in rest), "") for name, *rest in texts)


def _rest(n_shown: int) -> str:
    return f" [... cut after {n_shown} characters]"


def read_sheet(file: Path, asked: Collection[AskedAnswer]) -> tuple[list[AnswerLabel], int]:
    """Return the labels of a sheet, and how many rows have none.

    Args:
        file: what :func:`sheet_text` gave, with ``yes``, ``no`` or ``?`` under ``correct``.
        asked: the answers that a sheet can be about.

    Raises:
        DataError: a column is missing, a row is of an answer that nobody gave, its text was edited,
            or ``correct`` says something else; names file and line.
    """
    by_id = {one.id: one for one in asked}
    labels: dict[str, AnswerLabel] = {}
    n_open = 0
    for place, row in SHEET.rows(file):
        if not row["correct"].strip():
            n_open += 1
            continue
        one = by_id.get(row["id"].strip())
        if one is None:
            problem = f"{shown(row['id'])} is of no answer to a drawn question"
            raise place.error(f"{problem}; the answers changed, write a new sheet", "id")
        if not is_shown_as(row["answer"], one.answer):
            raise place.error(f"{shown(row['answer'])} is not the stored answer", "answer")
        label = AnswerLabel(one, _correct(row["correct"], place))
        if labels.setdefault(one.id, label) != label:
            raise place.error("disagrees with another row on the same answer", "correct")
    return list(labels.values()), n_open


def _correct(cell: str, place: Place) -> bool | None:
    word = cell.strip().lower()
    for words, value in ((YES, True), (NO, False), (CANNOT_TELL, None)):
        if word in words:
            return value
    raise place.error(f"is {shown(cell)}; must be yes, no or ?", "correct")


def append_labels(
    file: Path,
    labels: Sequence[AnswerLabel],
    probabilities: Mapping[str, float],
    by: str | None,
    at: str,
) -> None:
    """Append labels to a file in one write; it is on the disk when this returns.

    Args:
        file: made where it is not there.
        labels: what was said.
        probabilities: question -> the chance with which it was drawn.
        by: who said it.
        at: when.

    Raises:
        StoreError: it cannot be written.
    """
    lines = [
        {
            "query_id": label.asked.query_id,
            "answer": label.asked.answer,
            "correct": label.correct,
            "probability": probabilities[label.asked.query_id],
            "by": by,
            "at": at,
        }
        for label in labels
    ]
    if lines:
        append_line(file, "\n".join(json.dumps(line, ensure_ascii=False) for line in lines))


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    query_id: Id
    answer: Text
    correct: Annotated[bool | None, Meta(description="true, false or null")]
    probability: Chance | None = None
    by: Text | None = None
    at: Text | None = None


def read_answer_labels(file: Path) -> pa.Table:
    """Return the labels of a file, one row an answer, sorted: the last line on each.

    Raises:
        DataError: a line is not of the form above; names file, line and key.
    """
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for place, line in read_declared(file, _Line):
        query_id = checked_id(line.query_id, place, "query_id")
        rows[query_id, line.answer] = {**msgspec.structs.asdict(line), "query_id": query_id}
    return ANSWER_LABELS.from_rows([rows[key] for key in sorted(rows)])
