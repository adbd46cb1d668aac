"""``answer_em``: whether the answer is a right one, word for word."""

from __future__ import annotations

from typing import ClassVar

from rag_assets.answers.cases import Case
from rag_assets.answers.metrics.base import AnswerMetric
from rag_assets.answers.normalisation import normal_form


class ExactMatch(AnswerMetric):
    """Not defined for an answerable question without a gold answer."""

    name = "answer_em"
    description = "the answer is a gold answer"
    formula = (
        "1 when the normal forms of the answer and of any gold answer are equal, else 0; a refusal "
        "is the empty answer, which is the gold answer of an unanswerable question"
    )
    source = "Rajpurkar, Jia and Liang 2018, evaluate-v2.0.py"
    needs_gold: ClassVar[bool] = True

    def _is_defined(self, case: Case) -> bool:
        return bool(case.golds)

    def _value(self, case: Case) -> float:
        return float(normal_form(case.text, case.language) in case.golds)
