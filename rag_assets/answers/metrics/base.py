"""What every metric of answers has.

A failed answer, one that never came, counts 0 and stays in the mean, wherever the question's labels
and what is known of the answerer define the metric. A value that is not defined is null, and in no
mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from rag_assets.answers.cases import Case


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
