"""Files of JSON lines that people's answers go to: declared rows, only ever appended to.

Several processes may append at once: a call is one write, and on the disk when it returns. Of
several lines on one thing the last one counts, so who takes something back appends another line.

``labelling.jsonl`` has every judgment of a passage:

    {"query_id": "q7", "document_id": "guide.md", "start": 120, "end": 480, "grade": 2,
     "status": "judged", "probability": 0.31, "by": "ada", "at": "2026-03-01T09:30:00Z",
     "seconds": 8.4, "source": "person"}

``status`` is ``judged`` (with a ``grade`` from 0 to 3), ``skipped`` or ``cannot_tell`` (``grade``
is null). ``probability`` is that of being asked by then; null or 1 says that it was not drawn: an
earlier label. ``evidence`` may name spans of the item, [[start, end], ...]: what in it answers.
``digest`` stands for the text that was read: a grade of it is none of another text.

``source`` may also be ``judge:<name>``, the verdict of a judge, or ``vote:<system>``, what users of
a system said of what it showed them. Neither is a label, whoever is right: nobody drew what they
are of. They are control variates (:mod:`.sampling.estimates`), each source on its own.

``labelling.questions.jsonl`` beside it has what people say of questions:

    {"query_id": "q7", "mark": "duplicate", "of": "q2", "by": "ada", "at": "2026-03-01T09:30:00Z"}

``mark`` is one of :data:`MARKS`, or null: taken back. ``of`` may name the question that a duplicate
repeats. Marks of :data:`LEFT_OUT` take a question out of the next evaluation and of what a sample
of labels estimates. One that is ``unanswerable`` stays, because whether a system says so is
measured too; it gets the tag that declares it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from rag_assets.errors import DataError
from rag_assets.evaluation.units import text_digest
from rag_assets.labels.pool import Judgment, PooledUnit
from rag_assets.schemas import QUERIES
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Chance, Position, Text, shown
from rag_assets.sources.row_files import read_declared
from rag_assets.store.atomic import append_line
from rag_assets.store.canonical import canonical_json

Name = Annotated[
    str, Meta(pattern=r"\A[^\r\n\0]+\Z", description="a string on one line, not empty")
]
"""An id of a question or of a document."""


class LogLine(msgspec.Struct, frozen=True):
    """One line; a log's rows declare their fields, which are the keys of the JSON object."""

    def row(self) -> dict[str, Any]:
        """Return the JSON object."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        return row

    def problem(self) -> tuple[str, str] | None:
        """Return a key, and what is wrong with it that its type does not say; None: nothing."""
        return None


Line = TypeVar("Line", bound=LogLine)


def append_lines(file: Path, lines: Sequence[LogLine]) -> None:
    """Append lines in one write, which is on the disk when this returns."""
    if lines:
        append_line(file, "\n".join(canonical_json(line.row()) for line in lines))


def read_log(file: Path, kind: type[Line]) -> list[Line]:
    """Return all lines of a log, in order; none where there is no file.

    Raises:
        DataError: a line breaks the format; it names the file, the line and the key.
    """
    lines = []
    for place, line in read_declared(file, kind) if file.is_file() else ():
        problem = line.problem()
        if problem is not None:
            raise place.error(problem[1], problem[0])
        lines.append(line)
    return lines


Status: TypeAlias = Literal["judged", "skipped", "cannot_tell"]
JUDGED: Status = "judged"
SKIPPED: Status = "skipped"
CANNOT_TELL: Status = "cannot_tell"
HIGHEST_GRADE = 3
GRADES = f"an integer from 0 to {HIGHEST_GRADE}"

PERSON = "person"
HINTS = ("judge:", "vote:")
"""How the source of a line begins that is no label; a name follows."""

Range: TypeAlias = tuple[int, int]
"""First character, and the one after the last."""


class LoggedJudgment(LogLine, frozen=True):
    """One line; the fields are those of the module's head."""

    query_id: Name
    document_id: Name
    start: Position
    end: Position
    grade: Annotated[int, Meta(ge=0, le=HIGHEST_GRADE, description=GRADES)] | None
    status: Status = JUDGED
    probability: Chance | None = None
    by: Text | None = None
    at: Text | None = None
    seconds: Annotated[float, Meta(ge=0, description="a number from 0 on, or null")] | None = None
    source: Text = PERSON
    evidence: Annotated[
        tuple[Range, ...], Meta(description="a list of [start, end] in the item")
    ] = ()
    digest: Text | None = None

    def row(self) -> dict[str, Any]:
        """Return the JSON object; without evidence or digest it has no such key."""
        optional = ("evidence", "digest")
        return {key: value for key, value in super().row().items() if value or key not in optional}

    def is_of(self, text: str | None) -> bool:
        """Return whether what was read still stands in the text of its document; None: is gone."""
        if text is None or self.digest is None:  # an earlier version did not say what was read
            return text is not None and self.end <= len(text)
        return self.digest == text_digest(text[self.start : self.end])

    @property
    def item(self) -> PooledUnit:
        """The question and the span that was read."""
        return PooledUnit(self.query_id, self.document_id, self.start, self.end)

    def judgments(self, line: int = 0) -> Iterator[Judgment]:
        """Yield the labels that it gives; beside evidence the whole passage counts as seen."""
        if self.grade is not None:
            for start, end in self.evidence:
                part = self.item._replace(start=start, end=end)
                yield Judgment(part, self.grade, self.source, line)
            yield Judgment(self.item, 0 if self.evidence else self.grade, self.source, line)

    @property
    def was_drawn(self) -> bool:
        """Whether the design asked for it."""
        return self.probability is not None and self.probability < 1

    @property
    def is_hint(self) -> bool:
        """Whether it is a verdict or a vote, and no label."""
        return self.source.startswith(HINTS)

    def problem(self) -> tuple[str, str] | None:
        """Return a key, and what is wrong with it beside the others."""
        if self.end < self.start:
            return "end", f"is {self.end}, before `start`, {self.start}"
        if (self.grade is None) == (self.status == JUDGED):
            must = GRADES if self.status == JUDGED else "null"
            return "grade", f"must be {must} where the status is {self.status}"
        if not all(self.start <= start < end <= self.end for start, end in self.evidence):
            span = f"from {self.start} to {self.end}"
            return "evidence", f"must be a list of [start, end] in the item, {span}"
        if self.source in (*HINTS, "search"):  # the search box of earlier versions: no sample
            allowed = f"{PERSON}, judge:<name> or vote:<system>; delete the line"
            return "source", f"is {shown(self.source)}; allowed: {allowed}"
        if self.is_hint and self.was_drawn:
            problem = f"must be null where the source is {shown(self.source)}: it is no label"
            return "probability", problem
        return None


def read_judgments(file: Path) -> list[LoggedJudgment]:
    """Return all lines of a log, in order; none where there is no file."""
    return read_log(file, LoggedJudgment)


def drawn_items(judgments: Iterable[LoggedJudgment]) -> set[PooledUnit]:
    """Return the items that a design asked for."""
    return {each.item for each in judgments if each.was_drawn}


def source_counts(judgments: Iterable[LoggedJudgment], out: Collection[str]) -> dict[str, int]:
    """Return source -> how many items have a grade from it, none of the questions ``out``."""
    last = {(j.item, j.source): j.status for j in judgments if j.query_id not in out}
    counts = Counter(source for (_, source), status in last.items() if status == JUDGED)
    return dict(sorted(counts.items()))


def design_file(log: Path) -> Path:
    """Return the file beside a log that says by which design its items were drawn."""
    return log.with_suffix(".design.jsonl")


def lock_file(log: Path) -> Path:
    """Return what is locked by whoever writes what depends on what a log holds."""
    return log.with_name(f".{log.name}.lock")


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

    def problem(self) -> tuple[str, str] | None:
        """Return that a question repeats itself."""
        return ("of", "is the question itself") if self.of == self.query_id else None


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
        raise DataError("leaves out every question; none is left to ask", file=file)
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
