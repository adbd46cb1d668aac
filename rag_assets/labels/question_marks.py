"""What people say of questions, one JSON object a line, only ever appended to.

    {"query_id": "q7", "mark": "duplicate", "of": "q2", "by": "ada", "at": "2026-03-01T09:30:00Z"}

``mark`` is one of :data:`MARKS`, or null: taken back. ``of`` may name the question that a duplicate
repeats. The last line of a question counts.

Marks of :data:`LEFT_OUT` take a question out of the next evaluation and of what a sample of labels
estimates. One that is ``unanswerable`` stays, because whether a system says so is measured too; it
gets the tag that declares it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError
from rag_assets.labels.append_log import LogLine, Name, read_log
from rag_assets.schemas import QUERIES
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Text

MarkName: TypeAlias = Literal["kept", "refused", "unanswerable", "unclear", "duplicate"]
MARKS: tuple[MarkName, ...] = get_args(MarkName)
KEPT, REFUSED, UNANSWERABLE, UNCLEAR, DUPLICATE = MARKS
LEFT_OUT = (REFUSED, UNCLEAR, DUPLICATE)


class QuestionMark(LogLine, frozen=True):
    """One line; the fields are those of the module's head."""

    query_id: Name
    mark: MarkName | None
    of: Text | None = None
    by: Text | None = None
    at: Text | None = None


def marks_file(log: Path) -> Path:
    """Return the file beside a log of judgments with what was said of questions."""
    return log.with_suffix(".questions.jsonl")


def read_marks(file: Path) -> dict[str, QuestionMark]:
    """Return question -> its mark, of those that have one; none where there is no file."""
    marks = {line.query_id: line for line in read_log(file, QuestionMark)}
    return {query_id: line for query_id, line in marks.items() if line.mark is not None}


def mark_counts(marks: Mapping[str, QuestionMark]) -> dict[str, int]:
    """Return mark -> how many questions have it, in the order of :data:`MARKS`."""
    counts = Counter(line.mark for line in marks.values())
    return {mark: counts[mark] for mark in MARKS if counts[mark]}


def mark_counts_text(counts: Mapping[Any, int]) -> str:
    """Return counts of marks in words."""
    return ", ".join(f"{number} {mark}" for mark, number in counts.items())


def left_out(marks: Mapping[str, QuestionMark]) -> list[str]:
    """Return the ids of the questions that no evaluation asks."""
    return sorted(query_id for query_id, line in marks.items() if line.mark in LEFT_OUT)


def acting(marks: Mapping[str, QuestionMark]) -> dict[str, list[str]]:
    """Return what of marks changes an evaluation, as a recipe holds it: nothing where nothing does.

    Returns:
        ``left_out``: the ids of :func:`left_out`; ``unanswerable``: the ids of those marked so.
    """
    impossible = sorted(name for name, line in marks.items() if line.mark == UNANSWERABLE)
    parts = {"left_out": left_out(marks), "unanswerable": impossible}
    return {name: ids for name, ids in parts.items() if ids}


def acted_marks(recipe: Mapping[str, Any]) -> dict[str, QuestionMark]:
    """Return marks that act as those did of which a recipe holds :func:`acting`."""
    gone = {name: QuestionMark(name, REFUSED) for name in recipe.get("left_out", ())}
    impossible = recipe.get("unanswerable", ())
    return gone | {name: QuestionMark(name, UNANSWERABLE) for name in impossible}


def marked_queries(read: Read, marks: Mapping[str, QuestionMark], file: Path) -> Read:
    """Return the questions without those left out; one that is unanswerable gets this tag.

    ``file`` is that of the marks.

    Raises:
        DataError: no question is left.
    """
    parts, rows = acting(marks), read.table.to_pylist()
    for row in rows:
        if row["query_id"] in parts.get("unanswerable", ()) and UNANSWERABLE not in row["tags"]:
            row["tags"] = [*row["tags"], UNANSWERABLE]
    out = pa.array(parts.get("left_out", []), pa.string())
    changed = pa.Table.from_pylist(rows, read.table.schema)
    remaining = changed.filter(pc.invert(pc.is_in(changed["query_id"], out)))
    if rows and not remaining.num_rows:
        raise DataError("leaves every question out; none is left to ask", file=file)
    notes = list(read.notes)
    n_gone = len(rows) - remaining.num_rows
    if n_gone:
        ids = {row["query_id"] for row in rows}.intersection(parts["left_out"])
        gone = mark_counts_text(mark_counts({query_id: marks[query_id] for query_id in ids}))
        notes.append(f"{n_gone} left out, as {file.name} says: {gone}")
    return read._replace(table=remaining, notes=notes)


def with_left_out(queries: pa.Table, marks: Mapping[str, QuestionMark]) -> pa.Table:
    """Return the questions and, by their ids, those left out: labels may name all of them."""
    there = set(queries["query_id"].to_pylist())
    nothing: dict[str, object] = {"text": "", "tags": [], "metadata": "{}"}
    rows = [{**nothing, "query_id": name} for name in left_out(marks) if name not in there]
    return pa.concat_tables([queries, QUERIES.from_rows(rows)]) if rows else queries
