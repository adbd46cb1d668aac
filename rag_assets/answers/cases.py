"""One question and its answer, as metrics look at them, and which text holds which evidence.

By the rule of the judgments of retrieval a text satisfies an evidence of its document when it holds
at least half of its characters, or when at least half of the text lies inside it; an evidence
without a span is the whole document. Rows of a question that share an evidence id are alternatives:
one is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from rag_assets.answers.answer_text import Language, is_refusal, normal_form, without_markers
from rag_assets.answers.nuggets import Nugget
from rag_assets.schemas import Column, OpenTableSchema

ANSWER_METRICS = OpenTableSchema(
    "answer_metrics",
    "one question of one answerer; a float64 column for each metric",
    ("query_id",),
    query_id=Column(pa.string(), "the question"),
    failed=Column(pa.bool_(), "there is no answer: every metric that is defined is 0"),
    answerable=Column(
        pa.bool_(), "whether the corpus is said to hold an answer; null: no label says", True
    ),
)


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters ``[start, end)`` of a document's text."""

    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One place that answers a question; without start and end it is the whole document."""

    evidence_id: str
    document_id: str
    start: int | None = None
    end: int | None = None

    def is_in(self, passage: Passage) -> bool:
        """Return whether a passage satisfies it."""
        if self.document_id != passage.document_id:
            return False
        if self.start is None or self.end is None:
            return True
        shared = min(passage.end, self.end) - max(passage.start, self.start)
        shorter = min(passage.end - passage.start, self.end - self.start)
        return shared > 0 and 2 * shared >= shorter


def evidence_ids_in(evidence: Iterable[Evidence], passages: Sequence[Passage]) -> set[str]:
    """Return the ids of the evidences that any of some passages satisfies."""
    return {item.evidence_id for item in evidence if any(map(item.is_in, passages))}


@dataclass(frozen=True, slots=True)
class Gold:
    """What is right for one question.

    Attributes:
        query_id: the question.
        answerable: whether the corpus is said to hold an answer; None: no label says.
        answers: any of them is right, as they are written.
        evidence: places of positive grade.
        nuggets: facts that a good answer states.
    """

    query_id: str
    answerable: bool | None
    answers: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    nuggets: tuple[Nugget, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a context: its text, where that stands, and its tokens."""

    text: str
    place: Passage
    n_tokens: int = 0


Contexts: TypeAlias = Mapping[str, Sequence[Unit]]
"""Question -> the units that its answer was written from, in order."""


@dataclass(frozen=True)
class Case:
    """Everything that a metric may look at for one question.

    Attributes:
        question: what is right.
        answer: row of :data:`rag_assets.schemas.ANSWERS`; None: failed.
        context: the units, in order; None: not known.
        cites: whether any answer of the answerer cites or copies.
        language: how texts become words.
    """

    question: Gold
    answer: Mapping[str, Any] | None
    context: Sequence[Unit] | None = None
    cites: bool = False
    language: Language = "standard"

    @cached_property
    def golds(self) -> tuple[str, ...]:
        """The right answers in normal form, each once, as the official evaluation takes them.

        Those that have no word left are dropped; where none is left, and for an unanswerable
        question, it is the empty answer. None at all: no answer of another one is labelled.
        """
        if self.question.answerable is False:
            return ("",)
        if not self.question.answers:
            return ()
        forms = (normal_form(text, self.language) for text in self.question.answers)
        return tuple(dict.fromkeys(form for form in forms if form)) or ("",)

    @cached_property
    def abstained(self) -> bool:
        """Whether the answer refuses; a failed answer does not.

        An answer without a word refuses. Else what the generator says counts; where it says
        nothing, the list of phrases, but an answer that is right word for word is no refusal.
        """
        if self.answer is None:
            return False
        form = normal_form(self._plain, self.language)
        if not form or self.answer["abstained"] is not None:
            return not form or bool(self.answer["abstained"])
        return form not in self.golds and is_refusal(self._plain)

    @property
    def text(self) -> str:
        """The answer as it is compared: empty when it refuses, without markers of citations."""
        return "" if self.abstained else self._plain

    @property
    def cited(self) -> list[Passage | None]:
        """The place of each different citation; None for one of what is not in the context.

        A refusal cites nothing. Spans say more than the numbers of their units, so they come first.
        """
        if self.answer is None or self.abstained:
            return []
        units = dict(enumerate(self.context or (), 1))
        spans = dict.fromkeys(
            (span["unit"], span["start"], span["end"]) for span in self.answer["spans"] or ()
        )
        if not spans:
            numbers = dict.fromkeys(self.answer["cited"] or ())
            return [units[number].place if number in units else None for number in numbers]
        return [_copied(units.get(number), start, end) for number, start, end in spans]

    @cached_property
    def _plain(self) -> str:
        if self.answer is None:
            return ""
        return without_markers(self.answer["answer"], self.answer["cited"] or ())


def _copied(unit: Unit | None, start: int, end: int) -> Passage | None:
    if unit is None or not 0 <= start < end <= len(unit.text):
        return None
    first = unit.place.start
    return Passage(unit.place.document_id, first + start, first + end)


def cases_of(
    answers: pa.Table, questions: Iterable[Gold], contexts: Contexts | None, language: Language
) -> list[Case]:
    """Return a case for every question, sorted by query id; the answers are those stored."""
    columns = ["query_id", "answer", "abstained", "cited", "spans"]
    rows = [row for row in answers.select(columns).to_pylist() if row["answer"] is not None]
    came = {row["query_id"]: row for row in rows}
    cites = any((row["cited"], row["spans"]) != (None, None) for row in rows)
    return [
        Case(
            question,
            came.get(question.query_id),
            None if contexts is None else contexts.get(question.query_id, ()),
            cites,
            language,
        )
        for question in sorted(questions, key=lambda question: question.query_id)
    ]
