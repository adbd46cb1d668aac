"""One question and its answer, as metrics look at them, and which text holds which evidence.

And the tables that metrics of answers and the waterfall read and give.

By the rule of the judgments of retrieval a text satisfies an evidence of its document when it holds
at least half of its characters, or when at least half of the text lies inside it; an evidence
without a span is the whole document. Rows of a question that share an evidence id are alternatives:
one is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from rag_assets.answers.answer_text import Language, is_refusal, normal_form, without_markers
from rag_assets.schemas import ANSWERS as STORED_ANSWERS
from rag_assets.schemas import Column, OpenTableSchema, TableSchema

_EVIDENCE = pa.struct(
    [
        ("evidence_id", pa.string()),
        ("document_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)

_OF_MODELS = ("prompt_tokens", "completion_tokens", "finish_reason", "served_model")

ANSWERS = TableSchema(
    STORED_ANSWERS.name,
    STORED_ANSWERS.row,
    STORED_ANSWERS.key,
    **STORED_ANSWERS.but(*_OF_MODELS),
)
"""What a metric looks at of the stored answers."""

GOLDS = TableSchema(
    "golds",
    "what is right for one question",
    ("query_id",),
    query_id=Column(pa.string(), "the question"),
    answers=Column(pa.list_(pa.string()), "any of them is right; empty: none is known"),
    answerable=Column(
        pa.bool_(), "whether the corpus is said to hold an answer; null: no label says", True
    ),
    evidence=Column(
        pa.list_(_EVIDENCE),
        "places of positive grade; those with the same evidence_id are alternatives",
    ),
)

ANSWER_CONTEXTS = TableSchema(
    "answer_contexts",
    "one unit of the context that an answer was written from",
    ("query_id", "position"),
    query_id=Column(pa.string(), "the question"),
    position=Column(pa.int32(), "its number in the context, from 1"),
    text=Column(pa.string(), "as it was shown"),
    document_id=Column(pa.string(), "the document that it is part of"),
    start=Column(pa.int64(), "its first character in the document's text"),
    end=Column(pa.int64(), "character after the last one"),
)

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
    return {one.evidence_id for one in evidence if any(one.is_in(passage) for passage in passages)}


@dataclass(frozen=True, slots=True)
class Question:
    """What is right for one question.

    Attributes:
        query_id: the question.
        answerable: whether the corpus is said to hold an answer; None: no label says.
        answers: any of them is right, as they are written.
        evidence: places of positive grade.
    """

    query_id: str
    answerable: bool | None
    answers: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a context: its text, and where that stands."""

    text: str
    place: Passage


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer that came.

    Attributes:
        text: as it was written.
        abstained: what the generator says; None: the text tells.
        cited: numbers of units of the context, from 1; None: nothing is known of citations.
        spans: (number of a unit, start, end) of what was copied from the texts of units.
    """

    text: str
    abstained: bool | None = None
    cited: tuple[int, ...] | None = None
    spans: tuple[tuple[int, int, int], ...] | None = None


@dataclass(frozen=True)
class Case:
    """Everything that a metric may look at for one question.

    Attributes:
        question: what is right.
        answer: None: failed.
        context: the units, in order; None: not known.
        cites: whether any answer of the answerer cites or copies.
        language: how texts become words.
    """

    question: Question
    answer: Answer | None
    context: tuple[Unit, ...] | None = None
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
        if not form or self.answer.abstained is not None:
            return not form or bool(self.answer.abstained)
        return form not in self.golds and is_refusal(self._plain)

    @property
    def text(self) -> str:
        """The answer as it is compared: empty when it refuses, without markers of citations."""
        return "" if self.abstained else self._plain

    @cached_property
    def _plain(self) -> str:
        if self.answer is None:
            return ""
        return without_markers(self.answer.text, self.answer.cited or ())


def question_of(row: Mapping[str, Any]) -> Question:
    """Return one row of :data:`GOLDS`."""
    evidence = tuple(Evidence(**place) for place in row["evidence"])
    return Question(row["query_id"], row["answerable"], tuple(row["answers"]), evidence)


def units_of(contexts: pa.Table) -> dict[str, list[Unit]]:
    """Return the units of each question of :data:`ANSWER_CONTEXTS`, in order."""
    order = [("query_id", "ascending"), ("position", "ascending")]
    units: dict[str, list[Unit]] = {}
    for row in ANSWER_CONTEXTS.check(contexts).sort_by(order).to_pylist():
        place = Passage(row["document_id"], row["start"], row["end"])
        units.setdefault(row["query_id"], []).append(Unit(row["text"], place))
    return units


def cases_of(
    answers: pa.Table, golds: pa.Table, contexts: pa.Table | None, language: Language
) -> list[Case]:
    """Return a case for every question of ``golds``, sorted by query id.

    The arguments are those of :func:`rag_assets.answers.metrics_stage.answer_metrics`.
    """
    came = {row["query_id"]: _answer(row) for row in ANSWERS.check(answers).to_pylist()}
    cites = any(a and (a.cited, a.spans) != (None, None) for a in came.values())
    units = None if contexts is None else units_of(contexts)
    questions = map(question_of, GOLDS.check(golds).sort_by("query_id").to_pylist())
    return [
        Case(
            question,
            came.get(question.query_id),
            None if units is None else tuple(units.get(question.query_id, ())),
            cites,
            language,
        )
        for question in questions
    ]


def _answer(row: Mapping[str, Any]) -> Answer | None:
    if row["answer"] is None:
        return None
    cited, spans = row["cited"], row["spans"]
    return Answer(
        row["answer"],
        row["abstained"],
        None if cited is None else tuple(cited),
        None if spans is None else tuple((s["unit"], s["start"], s["end"]) for s in spans),
    )
