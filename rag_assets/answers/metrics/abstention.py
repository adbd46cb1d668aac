"""``abstained`` and ``abstention_f1``: how often an answerer refuses, and whether it should have.

A refusal is the empty answer, JSON's null, what the generator says is one, or a text of
:mod:`rag_assets.answers.refusals`.
"""

from __future__ import annotations

from typing import ClassVar

from rag_assets.answers.cases import Case
from rag_assets.answers.metrics.base import AnswerMetric
from rag_assets.answers.refusals import VERSION


class Abstained(AnswerMetric):
    """Neither high nor low is better: see :class:`AbstentionF1`."""

    name = "abstained"
    description = "the answer refuses"
    formula = "1 when the answer refuses, else 0; a failed answer does not refuse"
    source = f"the phrases of rag_assets.answers.refusals, version {VERSION}"

    def _is_defined(self, case: Case) -> bool:
        return True

    def _value(self, case: Case) -> float:
        return float(case.abstained)


class AbstentionF1(AnswerMetric):
    """F1 of refusing as a classifier of the unanswerable questions: 2TP / (2TP + FP + FN).

    TP: unanswerable and refused; FP: answerable and refused; FN: unanswerable, and answered or
    failed. A question's value is 1 for TP and 0 for FP and FN, and a TP counts twice in the mean:
    so the mean is F1. What is answered and answerable has none, nor has a question without labels.
    """

    name = "abstention_f1"
    description = "refusals where there is no answer, and only there"
    formula = (
        "2TP / (2TP + FP + FN) over the questions: TP unanswerable and refused, FP answerable and "
        "refused, FN unanswerable and not refused; not defined where all three are 0"
    )
    source = "van Rijsbergen 1979, of the refusals"
    is_mean: ClassVar[bool] = False

    def _is_defined(self, case: Case) -> bool:
        answerable = case.question.answerable
        return answerable is False or (answerable is True and case.abstained)

    def _value(self, case: Case) -> float:
        return float(case.question.answerable is False and case.abstained)

    def multiplicity(self, value: float) -> float:
        """Return 2 for a true positive, else 1."""
        return 1.0 + value
