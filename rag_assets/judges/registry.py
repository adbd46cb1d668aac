"""``type: recorded``, ``type: words``, and all types of judges by their names.

``recorded`` reads verdicts from a file, with the replies that they were read in: one JSON object a
line. Of a passage: ``query_id``, ``document_id``, ``start``, ``end``; of an answer: ``query_id``,
``answer``. Then ``reply``, what the judge wrote, which is read as that of a language model is, so
that anybody can check the verdict; or, where there is none, ``grade`` (of a passage, 0 to 3) or
``correct`` (of an answer, true or false); null is missing. ``digest`` stands for the texts that
were judged: where they are others now, the verdict is missing. Other keys are ignored.
``rag-assets judge export`` writes such a file.

``words`` takes no model at all: how many words two texts have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import Field

from rag_assets.answers.answer_text import words
from rag_assets.answers.metrics import token_f1
from rag_assets.judges.base import (
    CORRECTNESS,
    HIGHEST,
    RELEVANCE,
    UNPARSED,
    Item,
    Judge,
    Verdict,
    item_digest,
    parse,
)
from rag_assets.judges.llm import LlmJudge
from rag_assets.llm.completions import ModelSession
from rag_assets.options import Number
from rag_assets.sources.fields import Id, Place, Text, checked_id
from rag_assets.sources.row_files import read_declared

ABSENT = "not in the file"
EDITED = "recorded of another text"


class RecordedVerdict(NamedTuple):
    """One line of a file: its number, what it says, and the digest of what was judged, if known."""

    line: int
    verdict: Verdict
    digest: str | None


class RecordedJudge(Judge):
    """Verdicts read from ``path`` (relative to the YAML file), such as another one exported.

    What the file lacks, or holds of a text that was edited since, is missing and counted.
    """

    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["recorded"]
    path: Path

    def verdicts(
        self, items: Sequence[Item], session: ModelSession, *, again: bool = False
    ) -> Iterator[Verdict]:
        """Look each item up in the file."""
        records = read_recorded(self.path)
        for item in items:
            record = records.get(item.place)
            if record is None:
                yield Verdict(None, ABSENT)
            elif record.digest not in (None, item_digest(item)):
                yield Verdict(None, EDITED)
            else:
                yield record.verdict


_SPAN = "a whole number of 0 or more"
_GRADES = f"a whole number from 0 to {HIGHEST[RELEVANCE]}, or null"
_Position = Annotated[int, Meta(ge=0, le=2**63 - 1, description=_SPAN)]
_Grade = Annotated[int, Meta(ge=0, le=HIGHEST[RELEVANCE], description=_GRADES)]


class _Line(msgspec.Struct):
    query_id: Id
    answer: Text | UnsetType = UNSET
    document_id: Id | UnsetType = UNSET
    start: _Position | UnsetType = UNSET
    end: _Position | UnsetType = UNSET
    reply: Text | None = None
    grade: _Grade | UnsetType | None = UNSET
    correct: Annotated[bool | UnsetType | None, Meta(description="true, false or null")] = UNSET
    digest: Text | None = None
    problem: Text | None = None


def read_recorded(path: Path) -> dict[tuple[str | int, ...], RecordedVerdict]:
    """Read a file of verdicts, by what they are of.

    Raises:
        DataError: it cannot be read, has another form, or an item stands twice; names the file,
            the line and the key.
    """
    records: dict[tuple[str | int, ...], RecordedVerdict] = {}
    for place, line in read_declared(path, _Line):
        key = _key_of(line, place)
        if key in records:
            raise place.error(f"was already judged on line {records[key].line}", "query_id")
        records[key] = _record(line, place)
    return records


def _key_of(line: _Line, place: Place) -> tuple[str | int, ...]:
    query_id = checked_id(line.query_id, place, "query_id")
    if line.answer is not UNSET:
        return query_id, line.answer
    if line.document_id is UNSET:
        raise place.error("is missing, and so is `answer`; give one of them", "document_id")
    if line.start is UNSET or line.end is UNSET:
        raise place.error(f"is missing; must be {_SPAN}", "start" if line.start is UNSET else "end")
    if line.end < line.start:
        raise place.error(f"is {line.end}, before its start {line.start}", "end")
    return query_id, checked_id(line.document_id, place, "document_id"), line.start, line.end


def _record(line: _Line, place: Place) -> RecordedVerdict:
    number = place.line or 0
    kind, name = (RELEVANCE, "grade") if line.answer is UNSET else (CORRECTNESS, "correct")
    given = line.grade if line.answer is UNSET else line.correct
    if line.reply is not None:
        grade = parse(line.reply, HIGHEST[kind])
        verdict = Verdict(grade, UNPARSED if grade is None else None, f"line {number}")
    elif given is UNSET:
        raise place.error(f"is missing, and so is `{name}`: the verdict", "reply")
    elif given is None:
        verdict = Verdict(None, line.problem or "recorded as missing")
    else:
        verdict = Verdict(int(given))
    return RecordedVerdict(number, verdict, line.digest)


class WordsJudge(Judge):
    """Word overlap, for tests and as the floor that a real judge must pass.

    The grade of a passage is which quarter of the question's different words it holds: 0 for less
    than one quarter, 3 for three or more. An answer is right from ``right`` on, the best F1 of its
    words and those of a right one. It sees no meaning: a negation, or another number, is one word
    among many. ``language`` says how texts become words: ``cjk`` takes characters.
    """

    type: Literal["words"]
    language: Literal["standard", "cjk"] = "standard"
    right: Annotated[Number, Field(gt=0, le=1)] = 0.5

    def verdicts(
        self, items: Sequence[Item], session: ModelSession, *, again: bool = False
    ) -> Iterator[Verdict]:
        """Count the words of each item."""
        for item in items:
            question, text, *golds = (words(one, self.language) for one in item.texts)
            if golds:
                yield Verdict(int(max(token_f1(gold, text) for gold in golds) >= self.right))
            else:
                shared = len(set(question) & set(text))
                quarters = 4 * shared // len(set(question)) if question else 0
                yield Verdict(min(quarters, HIGHEST[RELEVANCE]))


JUDGE_TYPES: dict[str, type[Judge]] = {
    "llm": LlmJudge,
    "recorded": RecordedJudge,
    "words": WordsJudge,
}
"""All judge types, by their names."""
