"""What people say of questions, one JSON object a line, only ever appended to.

    {"query_id": "q7", "mark": "duplicate", "of": "q2", "by": "ada", "at": "2026-03-01T09:30:00Z"}

``mark`` is one of :data:`MARKS`, or null: taken back. ``of`` may name the question that a duplicate
repeats, ``text`` a better wording of one that is kept. The last line of a question counts.

Marks of :data:`LEFT_OUT` take a question out of the next evaluation and of what a sample of labels
estimates. One that is ``unanswerable`` stays, because whether a system says so is measured too; it
gets the tag that declares it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError
from rag_assets.schemas import QUERIES
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Id, Text, checked_id
from rag_assets.sources.row_files import read_declared
from rag_assets.store.atomic import append_line
from rag_assets.store.canonical import canonical_json

KEPT, REFUSED, UNANSWERABLE = "kept", "refused", "unanswerable"
UNCLEAR, DUPLICATE = "unclear", "duplicate"
MARKS = (KEPT, REFUSED, UNANSWERABLE, UNCLEAR, DUPLICATE)
LEFT_OUT = (REFUSED, UNCLEAR, DUPLICATE)


class QuestionMark(NamedTuple):
    """One line."""

    query_id: str
    mark: str | None
    of: str | None = None
    by: str | None = None
    at: str | None = None
    text: str | None = None


class _Line(msgspec.Struct):
    query_id: Id
    mark: Literal["kept", "refused", "unanswerable", "unclear", "duplicate"] | None = None
    of: Text | None = None
    by: Text | None = None
    at: Text | None = None
    text: Text | None = None


def marks_file(log: Path) -> Path:
    """Return the file beside a log of judgments with what was said of questions."""
    return log.with_suffix(".questions.jsonl")


def append_mark(file: Path, mark: QuestionMark) -> None:
    """Append a line; it is on the disk when this returns.

    Raises:
        StoreError: the file cannot be written.
    """
    fields = mark._asdict()
    if mark.text is None:
        del fields["text"]
    append_line(file, canonical_json(fields))


def read_marks(file: Path) -> dict[str, QuestionMark]:
    """Return question -> its mark, of those that have one; none where there is no file.

    Raises:
        DataError: a line breaks the format.
    """
    marks = {one.query_id: one for one in mark_lines(file)}
    return {name: one for name, one in marks.items() if one.mark is not None}


def mark_lines(file: Path) -> Iterator[QuestionMark]:
    """Yield all lines of a file, in order; none where there is no file.

    Raises:
        DataError: a line breaks the format.
    """
    for place, line in read_declared(file, _Line) if file.is_file() else ():
        query_id, *rest = msgspec.structs.astuple(line)
        yield QuestionMark(checked_id(query_id, place, "query_id"), *rest)


def mark_counts(marks: Mapping[str, QuestionMark]) -> dict[str, int]:
    """Return mark -> how many questions have it, in the order of :data:`MARKS`."""
    counts = Counter(one.mark for one in marks.values())
    return {mark: counts[mark] for mark in MARKS if counts[mark]}


def mark_counts_text(counts: Mapping[str, int]) -> str:
    """Return counts of marks in words."""
    return ", ".join(f"{number} {mark}" for mark, number in counts.items())


def left_out(marks: Mapping[str, QuestionMark]) -> list[str]:
    """Return the ids of the questions that no evaluation asks."""
    return sorted(name for name, one in marks.items() if one.mark in LEFT_OUT)


def acting(marks: Mapping[str, QuestionMark]) -> dict[str, Any]:
    """Return what of marks changes an evaluation, as a recipe holds it: nothing where nothing does.

    Returns:
        ``left_out``: the ids of :func:`left_out`; ``wordings``: question -> its better wording;
        ``unanswerable``: the ids of those marked so.
    """
    better = {name: one.text for name, one in sorted(marks.items()) if _is_worded(one)}
    impossible = sorted(name for name, one in marks.items() if one.mark == UNANSWERABLE)
    parts = {"left_out": left_out(marks), "wordings": better, "unanswerable": impossible}
    return {name: part for name, part in parts.items() if part}


def acted_marks(recipe: Mapping[str, Any]) -> dict[str, QuestionMark]:
    """Return marks that act as those did of which a recipe holds :func:`acting`."""
    marks = {name: QuestionMark(name, REFUSED) for name in recipe.get("left_out", ())}
    for name, text in recipe.get("wordings", {}).items():
        marks[name] = QuestionMark(name, KEPT, text=text)
    marks |= {name: QuestionMark(name, UNANSWERABLE) for name in recipe.get("unanswerable", ())}
    return marks


def _is_worded(mark: QuestionMark) -> bool:
    return mark.mark == KEPT and bool(mark.text)


def marked_queries(read: Read, marks: Mapping[str, QuestionMark], file: Path) -> Read:
    """Return the questions as people want them: without those left out, in their new wording.

    A question marked ``unanswerable`` has the tag ``unanswerable``.

    Args:
        read: table of :data:`rag_assets.schemas.QUERIES`.
        marks: question -> its mark.
        file: of the marks, for the error.

    Raises:
        DataError: no question is left.
    """
    table = read.table
    out = pc.is_in(table["query_id"], pa.array(left_out(marks), pa.string()))
    better = acting(marks).get("wordings", {})
    impossible = set(acting(marks).get("unanswerable", ()))
    ids, texts, tags = (table[name].to_pylist() for name in ("query_id", "text", "tags"))
    texts = [better.get(name, text) for name, text in zip(ids, texts, strict=True)]
    tags = [
        [*of, UNANSWERABLE] if name in impossible and UNANSWERABLE not in of else of
        for name, of in zip(ids, tags, strict=True)
    ]
    changed = table
    for column, values in (("text", texts), ("tags", tags)):
        place = table.schema.get_field_index(column)
        field = table.schema.field(place)
        changed = changed.set_column(place, field, pa.array(values, field.type))
    kept = changed.filter(pc.invert(out))
    if table.num_rows and not kept.num_rows:
        raise DataError("leaves every question out; none is left to ask", file=file)
    notes = list(read.notes)
    if kept.num_rows < table.num_rows:
        there = {name: one for name, one in marks.items() if name in set(ids)}
        gone = {mark: n for mark, n in mark_counts(there).items() if mark in LEFT_OUT}
        n_gone = table.num_rows - kept.num_rows
        notes.append(f"{n_gone} left out, as {file.name} says: {mark_counts_text(gone)}")
    return read._replace(table=kept, notes=notes)


def with_left_out(queries: pa.Table, marks: Mapping[str, QuestionMark]) -> pa.Table:
    """Return the questions and those that are left out, by their ids: labels may name all of them.

    Args:
        queries: table of :data:`rag_assets.schemas.QUERIES`; itself where nothing is left out.
        marks: question -> its mark.
    """
    there = set(queries["query_id"].to_pylist())
    nothing: dict[str, object] = {"text": "", "tags": [], "metadata": "{}"}
    rows = [{**nothing, "query_id": name} for name in left_out(marks) if name not in there]
    return pa.concat_tables([queries, QUERIES.from_rows(rows)]) if rows else queries
