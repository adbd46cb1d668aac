"""``labelling.jsonl``: every judgment of a person, one JSON object a line, only ever appended to.

    {"query_id": "q7", "document_id": "guide.md", "start": 120, "end": 480, "grade": 2,
     "status": "judged", "probability": 0.31, "by": "ada", "at": "2026-03-01T09:30:00Z",
     "seconds": 8.4, "source": "person"}

``status`` is ``judged`` (with a ``grade`` from 0 to 3), ``skipped`` or ``cannot_tell`` (``grade``
is null). ``probability`` is that of being asked by then; null or 1 says that it was not drawn:
earlier labels, or, with ``search`` as ``source``, evidence that somebody searched for. The last
line of an item counts. ``evidence`` may name spans of the item, [[start, end], ...]: what in it
answers.

``source`` may also be ``judge:<name>``, the verdict of a judge, or ``vote:<system>``, what users of
a system said of what it showed them. Neither is a label, whoever is right: nobody drew what they
are of. They are control variates (:mod:`.estimates`), each source on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from rag_assets.labels.append_log import LogLine, Name, read_log
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.sources.fields import Chance, Position, Text, shown

Status: TypeAlias = Literal["judged", "skipped", "cannot_tell"]
JUDGED: Status = "judged"
SKIPPED: Status = "skipped"
CANNOT_TELL: Status = "cannot_tell"
HIGHEST_GRADE = 3
GRADES = f"an integer from 0 to {HIGHEST_GRADE}"

PERSON = "person"
HINTS = ("judge:", "vote:")
"""How the source of a line begins that is no label; a name follows."""

SEARCH = "search"
"""Source of a label that a person gave to what a free search had found: no part of the sample."""

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

    def row(self) -> dict[str, Any]:
        """Return the JSON object; without evidence it has no such key."""
        row = super().row()
        return row if self.evidence else {key: row[key] for key in row if key != "evidence"}

    @property
    def item(self) -> PooledUnit:
        """The question and the span that was read."""
        return PooledUnit(self.query_id, self.document_id, self.start, self.end)

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
        if self.source in HINTS:
            allowed = f"{PERSON}, judge:<name> or vote:<system>"
            return "source", f"is {shown(self.source)}, without a name; allowed: {allowed}"
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


def source_counts(judgments: Iterable[LoggedJudgment]) -> dict[str, int]:
    """Return source -> how many items have a grade from it, in the order of the names."""
    last = {(each.item, each.source): each.status for each in judgments}
    counts = Counter(source for (_, source), status in last.items() if status == JUDGED)
    return dict(sorted(counts.items()))


def design_file(log: Path) -> Path:
    """Return the file beside a log that says by which design its items were drawn."""
    return log.with_suffix(".design.jsonl")


def lock_file(log: Path) -> Path:
    """Return what is locked by whoever writes what depends on what a log holds."""
    return log.with_name(f".{log.name}.lock")
