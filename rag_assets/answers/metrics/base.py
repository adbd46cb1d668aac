"""What every metric of answers has, and the tables that they are computed from.

A failed answer, one that never came, counts 0 and stays in the mean, wherever the question's labels
and what is known of the answerer define the metric. A value that is not defined is null, and in no
mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from rag_assets.answers.citations import without_markers
from rag_assets.answers.evidence import Evidence, Passage
from rag_assets.answers.normalisation import Language, normal_form
from rag_assets.answers.refusals import is_refusal
from rag_assets.schemas import Column, TableSchema

_SPAN = pa.struct([("unit", pa.int32()), ("start", pa.int32()), ("end", pa.int32())])
_EVIDENCE = pa.struct(
    [
        ("evidence_id", pa.string()),
        ("document_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)

ANSWERS = TableSchema(
    "answers",
    "the answer to one question",
    ("query_id",),
    (
        Column("query_id", pa.string(), "the question"),
        Column("answer", pa.string(), "empty: refused; null: failed", True),
        Column("abstained", pa.bool_(), "what the generator says; null: the text tells", True),
        Column(
            "cited",
            pa.list_(pa.int32()),
            "numbers of units of the context, from 1; null: the generator cites nothing",
            True,
        ),
        Column(
            "spans",
            pa.list_(_SPAN),
            "characters [start, end) of the text of units of the context; null: it copies nothing",
            True,
        ),
        Column("score", pa.float64(), "higher: rather no answer; null: not known", True),
        Column("error", pa.string(), "why there is no answer; null: there is one", True),
    ),
)

GOLDS = TableSchema(
    "golds",
    "what is right for one question",
    ("query_id",),
    (
        Column("query_id", pa.string(), "the question"),
        Column("answers", pa.list_(pa.string()), "any of them is right; empty: none is known"),
        Column("answerable", pa.bool_(), "whether the corpus is said to hold an answer"),
        Column(
            "evidence",
            pa.list_(_EVIDENCE),
            "places of positive grade; those with the same evidence_id are alternatives",
        ),
    ),
)

ANSWER_CONTEXTS = TableSchema(
    "answer_contexts",
    "one unit of the context that an answer was written from",
    ("query_id", "position"),
    (
        Column("query_id", pa.string(), "the question"),
        Column("position", pa.int32(), "its number in the context, from 1"),
        Column("text", pa.string(), "as it was shown"),
        Column("document_id", pa.string(), "the document that it is part of"),
        Column("start", pa.int64(), "its first character in the document's text"),
        Column("end", pa.int64(), "character after the last one"),
    ),
)

ANSWER_METRICS = TableSchema(
    "answer_metrics",
    "one question of one answerer; a float64 column for each metric",
    ("query_id",),
    (
        Column("query_id", pa.string(), "the question"),
        Column("failed", pa.bool_(), "there is no answer: every metric that is defined is 0"),
        Column("answerable", pa.bool_(), "whether the corpus is said to hold an answer"),
    ),
    open_columns=True,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is right for one question.

    Attributes:
        query_id: the question.
        answerable: whether the corpus is said to hold an answer.
        answers: any of them is right, as they are written.
        evidence: places of positive grade.
    """

    query_id: str
    answerable: bool
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

        Those that have no word left are dropped. Where none is left, and for an unanswerable
        question, it is the empty answer. None at all: it is answerable, and no answer is labelled.
        """
        if not self.question.answers:
            return () if self.question.answerable else ("",)
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


class AnswerMetric(ABC):
    """One metric.

    Attributes:
        name: of its column.
        description: what it says, in a few words.
        formula: with what is not defined.
        source: who defined it.
        needs_gold: whether it compares with right answers.
        needs_evidence: whether it needs evidence labels.
        needs_context: whether it looks at the context.
        is_mean: whether its value over questions is the plain mean of their values, so that
            answerers can be compared question by question.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    needs_gold: ClassVar[bool] = False
    needs_evidence: ClassVar[bool] = False
    needs_context: ClassVar[bool] = False
    is_mean: ClassVar[bool] = True

    def of(self, case: Case) -> float | None:
        """Return the value of one question: None where not defined, 0 where the answer failed."""
        if not self._is_defined(case):
            return None
        return 0.0 if case.answer is None else self._value(case)

    @abstractmethod
    def _is_defined(self, case: Case) -> bool:
        """Return whether the labels, and what is known of the answerer, define it."""

    @abstractmethod
    def _value(self, case: Case) -> float | None:
        """Return the value of an answer that came."""

    def multiplicity(self, value: float) -> float:
        """Return how often a value counts in the mean over questions, beside their weights."""
        return 1.0
