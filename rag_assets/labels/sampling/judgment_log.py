"""``labelling.jsonl``: every judgment of a person, one JSON object a line, only ever appended to.

    {"query_id": "q7", "document_id": "guide.md", "start": 120, "end": 480, "grade": 2,
     "status": "judged", "probability": 0.31, "by": "ada", "at": "2026-03-01T09:30:00Z",
     "seconds": 8.4, "source": "person"}

``status`` is ``judged`` (with a ``grade`` from 0 to 3), ``skipped`` or ``cannot_tell`` (``grade``
is null). ``probability`` is that of being asked by then; null or 1 says that it was not drawn:
earlier labels, or, with ``search`` as ``source``, evidence that somebody searched for. The last
line of an item counts, so who takes a judgment back appends another. ``evidence`` may name spans of
the item, [[start, end], ...]: what in it answers.

``source`` may also be ``judge:<name>``, the verdict of a judge, or ``vote:<system>``, what users of
a system said of what it showed them. Neither is a label, whoever is right: nobody drew what they
are of. They are control variates (:mod:`.working_values`), each source on its own.

A line is one write, and on the disk before the next item is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.sources.fields import Chance, Id, Place, Position, Text, checked_id, shown
from rag_assets.sources.row_files import read_declared
from rag_assets.store.atomic import append_line
from rag_assets.store.canonical import canonical_json

JUDGED, SKIPPED, CANNOT_TELL = "judged", "skipped", "cannot_tell"
STATUSES = (JUDGED, SKIPPED, CANNOT_TELL)
HIGHEST_GRADE = 3
_GRADES = f"an integer from 0 to {HIGHEST_GRADE}"

PERSON = "person"
HINTS = ("judge:", "vote:")
"""How the source of a line begins that is no label; a name follows."""

SEARCH = "search"
"""Source of a label that a person gave to what a free search had found: no part of the sample."""

Range: TypeAlias = tuple[int, int]
"""First character, and the one after the last."""


class LoggedJudgment(NamedTuple):
    """One line.

    Attributes:
        item: the question and the span that was read.
        grade: 0 to 3; None unless the status is ``judged``.
        status: one of :data:`STATUSES`.
        probability: of being asked by then; None or 1: not drawn.
        by: who; at: when, ISO 8601; seconds: how long it took.
        source: :data:`PERSON`, :data:`SEARCH`, one of :data:`HINTS` with a name, or what else it
            came from.
        evidence: spans inside the item that answer; none: nothing was marked.
    """

    item: PooledUnit
    grade: int | None
    status: str = JUDGED
    probability: float | None = None
    by: str | None = None
    at: str | None = None
    seconds: float | None = None
    source: str = PERSON
    evidence: tuple[Range, ...] = ()

    @property
    def was_drawn(self) -> bool:
        """Whether the design asked for it."""
        return self.probability is not None and self.probability < 1

    @property
    def is_hint(self) -> bool:
        """Whether it is a verdict or a vote, and no label."""
        return self.source.startswith(HINTS)


def append_judgment(file: Path, judgment: LoggedJudgment) -> None:
    """Append a line; it is on the disk when this returns. For several processes at once.

    Raises:
        StoreError: the file cannot be written.
    """
    append_judgments(file, [judgment])


def append_judgments(file: Path, judgments: Sequence[LoggedJudgment]) -> None:
    """Append lines in one write.

    Raises:
        StoreError: the file cannot be written.
    """
    if judgments:
        append_line(file, "\n".join(map(_line, judgments)))


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


def _line(judgment: LoggedJudgment) -> str:
    fields = judgment._asdict()
    if not judgment.evidence:
        del fields["evidence"]
    return canonical_json({**fields.pop("item")._asdict(), **fields})


def read_judgments(file: Path) -> list[LoggedJudgment]:
    """Return all lines of a log, in order.

    Raises:
        DataError: a line breaks the format; it names the file, the line and the key.
    """
    return list(_judgments(file))


class _Line(msgspec.Struct):
    query_id: Id
    document_id: Id
    start: Position
    end: Position
    status: Literal["judged", "skipped", "cannot_tell"]
    grade: Annotated[int, Meta(ge=0, le=HIGHEST_GRADE, description=_GRADES)] | None = None
    probability: Chance | None = None
    by: Text | None = None
    at: Text | None = None
    seconds: Annotated[float, Meta(ge=0, description="a number from 0 on, or null")] | None = None
    source: Text | None = None
    evidence: Annotated[list[Range], Meta(description="a list of [start, end] in the item")] = []


def _judgments(file: Path) -> Iterator[LoggedJudgment]:
    for place, line in read_declared(file, _Line):
        query_id = checked_id(line.query_id, place, "query_id")
        document_id = checked_id(line.document_id, place, "document_id")
        item = PooledUnit(query_id, document_id, line.start, line.end)
        if item.end < item.start:
            raise place.error(f"is {item.end}, before `start`, {item.start}", "end")
        if line.status == JUDGED and line.grade is None:
            raise place.error(f"is null; must be {_GRADES}", "grade")
        if line.status != JUDGED and line.grade is not None:
            raise place.error(f"must be null where the status is {line.status}", "grade")
        if not all(item.start <= start < end <= item.end for start, end in line.evidence):
            span = f"from {item.start} to {item.end}"
            raise place.error(f"must be a list of [start, end] in the item, {span}", "evidence")
        one = LoggedJudgment(
            *(item, line.grade, line.status, line.probability, line.by, line.at, line.seconds),
            source=checked_source(line.source or PERSON, place),
            evidence=tuple(line.evidence),
        )
        if one.is_hint and one.was_drawn:
            problem = f"must be null where the source is {shown(one.source)}: it is no label"
            raise place.error(problem, "probability")
        yield one


def checked_source(source: str, place: Place) -> str:
    """Return a source.

    Raises:
        DataError: it is a verdict or a vote of nobody.
    """
    if source in HINTS:
        allowed = f"{PERSON}, judge:<name> or vote:<system>"
        raise place.error(f"is {shown(source)}, without a name; allowed: {allowed}", "source")
    return source
