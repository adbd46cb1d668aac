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
from typing import NamedTuple, TypeAlias

from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.sources.fields import Place, Row, identifier, optional_string, shown, string
from rag_assets.sources.strict_json import read_objects, type_name
from rag_assets.store.appended import append_line
from rag_assets.store.canonical import canonical_json

JUDGED, SKIPPED, CANNOT_TELL = "judged", "skipped", "cannot_tell"
STATUSES = (JUDGED, SKIPPED, CANNOT_TELL)
HIGHEST_GRADE = 3

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


def _judgments(file: Path) -> Iterator[LoggedJudgment]:
    for number, row in read_objects(file):
        place = Place(file, number)
        status = string(row, "status", place)
        if status not in STATUSES:
            problem = f"is {shown(status)}; allowed: {', '.join(STATUSES)}"
            raise place.error(problem, "status")
        item = _item(row, place)
        one = LoggedJudgment(
            item,
            _grade(row, status, place),
            status,
            _number(row, "probability", place, 1.0),
            optional_string(row, "by", place),
            optional_string(row, "at", place),
            _number(row, "seconds", place, float("inf")),
            checked_source(optional_string(row, "source", place) or PERSON, place),
            tuple(_ranges(row, item, place)),
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


def _item(row: Row, place: Place) -> PooledUnit:
    query_id, document_id = (identifier(row, key, place) for key in ("query_id", "document_id"))
    start, end = (_position(row, key, place) for key in ("start", "end"))
    if end < start:
        raise place.error(f"is {end}, before `start`, {start}", "end")
    return PooledUnit(query_id, document_id, start, end)


def _ranges(row: Row, item: PooledUnit, place: Place) -> Iterator[Range]:
    listed = row.get("evidence", [])
    for each in listed if isinstance(listed, list) else [listed]:
        pair = each if isinstance(each, list) and len(each) == 2 else [None, None]
        start, end = (one if type(one) is int else -1 for one in pair)
        if not item.start <= start < end <= item.end:
            span = f"from {item.start} to {item.end}"
            raise place.error(f"must be a list of [start, end] in the item, {span}", "evidence")
        yield start, end


def _position(row: Row, key: str, place: Place) -> int:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise place.error(f"is {type_name(value)}; must be an integer from 0 on", key)
    if value < 0:
        raise place.error(f"is {value}; must be an integer from 0 on", key)
    return value


def _grade(row: Row, status: str, place: Place) -> int | None:
    grade = row.get("grade")
    if status != JUDGED:
        if grade is not None:
            raise place.error(f"must be null where the status is {status}", "grade")
        return None
    if isinstance(grade, bool) or not isinstance(grade, int) or not 0 <= grade <= HIGHEST_GRADE:
        found = grade if isinstance(grade, int) else type_name(grade)
        raise place.error(f"is {found}; must be an integer from 0 to {HIGHEST_GRADE}", "grade")
    return grade


def _number(row: Row, key: str, place: Place, highest: float) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.error(f"is {type_name(value)}; must be a number or null", key)
    if not 0 <= value <= highest or (key == "probability" and value == 0):
        raise place.error(f"is {value}; must be above 0 and at most {highest:g}", key)
    return float(value)
