"""``type: recorded``: verdicts that stand in a file, with the replies that they were read in.

One JSON object a line. Of a passage: ``query_id``, ``document_id``, ``start``, ``end``; of an
answer: ``query_id``, ``answer``. Then ``reply``, what the judge wrote, which is read as that of a
language model is, so that anybody can check the verdict; or, where there is none, ``grade`` (of a
passage, 0 to 3) or ``correct`` (of an answer, true or false); null is missing. ``digest`` stands
for the texts that were judged: where they are others now, the verdict is missing. Other keys are
ignored. ``rag-assets judge export`` writes such a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from rag_assets.judges.base import (
    CORRECTNESS,
    HIGHEST,
    RELEVANCE,
    UNPARSED,
    Item,
    Judge,
    Kind,
    RelevanceItem,
    Tools,
    Verdict,
    item_digest,
)
from rag_assets.judges.verdict_lines import parse
from rag_assets.sources.fields import Place, Row, identifier, optional_string, string
from rag_assets.sources.strict_json import read_objects, type_name

ABSENT = "not in the file"
EDITED = "recorded of another text"

MAX_CHARACTERS = 2**63 - 1
"""A span's edges are 64-bit integers."""

_GRADE: Mapping[Kind, str] = {RELEVANCE: "grade", CORRECTNESS: "correct"}


class RecordedVerdict(NamedTuple):
    """One line of a file.

    Attributes:
        line: its number.
        verdict: as the reply says, where there is one.
        digest: of what was judged; None: not known.
        said: the grade that stands beside a reply; None: none does.
    """

    line: int
    verdict: Verdict
    digest: str | None
    said: int | None


Key = tuple[str, ...] | tuple[str, str, int, int]


class RecordedJudge(Judge):
    """Verdicts read from ``path`` (relative to the YAML file), such as another one exported.

    What the file lacks, or holds of a text that was edited since, is missing and counted.
    """

    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["recorded"]
    path: Path

    def verdicts(self, items: Sequence[Item], tools: Tools) -> Iterator[Verdict]:
        """Look each item up in the file."""
        records = read_recorded(self.path)
        differing = 0
        for item in items:
            record = records.get(_key(item))
            if record is None:
                yield Verdict(None, ABSENT)
            elif record.digest not in (None, item_digest(item)):
                yield Verdict(None, EDITED)
            else:
                differing += record.said not in (None, record.verdict.grade)
                yield record.verdict
        if differing:
            tools.notes.append(
                f"{differing} recorded grades are not what their replies say; the replies count"
            )


def read_recorded(path: Path) -> dict[Key, RecordedVerdict]:
    """Read a file of verdicts, by what they are of.

    Raises:
        DataError: it cannot be read, has another form, or an item stands twice; names the file,
            the line and the key.
    """
    records: dict[Key, RecordedVerdict] = {}
    for number, row in read_objects(path):
        place = Place(path, number)
        key, kind = _key_of(row, place)
        if key in records:
            raise place.error(f"was already judged on line {records[key].line}", "query_id")
        records[key] = _record(row, kind, place)
    return records


def _key(item: Item) -> Key:
    if isinstance(item, RelevanceItem):
        return (item.query_id, item.document_id, item.start, item.end)
    return (item.query_id, item.answer)


def _key_of(row: Row, place: Place) -> tuple[Key, Kind]:
    query_id = identifier(row, "query_id", place)
    if "answer" in row:
        return (query_id, string(row, "answer", place)), CORRECTNESS
    if "document_id" not in row:
        raise place.error("is missing, and so is `answer`; give one of them", "document_id")
    start, end = (_whole(row.get(name), name, place) for name in ("start", "end"))
    if end < start:
        raise place.error(f"is {end}, before its start {start}", "end")
    return (query_id, identifier(row, "document_id", place), start, end), RELEVANCE


def _record(row: Row, kind: Kind, place: Place) -> RecordedVerdict:
    line, said = place.line or 0, _said(row, kind, place)
    digest, reply = (optional_string(row, name, place) for name in ("digest", "reply"))
    if reply is not None:
        grade = parse(reply, HIGHEST[kind])
        verdict = Verdict(grade, UNPARSED if grade is None else None, f"line {line}")
        return RecordedVerdict(line, verdict, digest, said)
    name = _GRADE[kind]
    if name not in row:
        raise place.error(f"is missing, and so is `{name}`: the verdict", "reply")
    problem = optional_string(row, "problem", place) or "recorded as missing"
    return RecordedVerdict(line, Verdict(said, problem if said is None else None), digest, None)


def _said(row: Row, kind: Kind, place: Place) -> int | None:
    name = _GRADE[kind]
    value = row.get(name)
    if value is None:
        return None
    if kind == RELEVANCE:
        return _whole(value, name, place, HIGHEST[kind])
    if isinstance(value, bool):
        return int(value)
    raise place.error(f"is {type_name(value)}; must be true, false or null", name)


def _whole(value: object, name: str, place: Place, highest: int = MAX_CHARACTERS) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= highest:
        return value
    shown = value if isinstance(value, int | float) else type_name(value)
    allowed = "of 0 or more" if highest == MAX_CHARACTERS else f"from 0 to {highest}, or null"
    raise place.error(f"is {shown}; must be a whole number {allowed}", name)
