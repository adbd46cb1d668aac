"""``grounded``: the share of the answer's words that stand in the context.

It looks at words and knows no meaning: an answer that puts the right words into a wrong sentence is
grounded, and a right answer in other words is not.
"""

from __future__ import annotations

from typing import ClassVar

from rag_assets.answers.cases import Case
from rag_assets.answers.metrics.base import AnswerMetric
from rag_assets.answers.normalisation import words

# fmt: off
FUNCTION_WORDS = frozenset((
    "and", "are", "as", "at", "be", "been", "but", "by", "did", "do", "does", "for", "from", "had",
    "has", "have", "he", "her", "his", "if", "in", "into", "is", "it", "its", "no", "not", "of",
    "on", "or", "she", "so", "such", "than", "that", "their", "then", "there", "these", "they",
    "this", "to", "was", "were", "which", "who", "will", "with", "would",
))
# fmt: on
"""Words of English that say nothing by themselves; `standard` has dropped a, an and the."""


class Grounded(AnswerMetric):
    """Not defined for a refusal, or an answer of function words alone; a failed answer counts 0."""

    name = "grounded"
    description = "words of the answer that the context holds"
    formula = (
        "content words of the answer, with repetitions, that stand in any unit of the context / "
        "content words of the answer; not defined without one, nor where the context is not known"
    )
    source = "K-Precision of Adlakha et al. 2024, without function words"
    needs_context: ClassVar[bool] = True

    def _is_defined(self, case: Case) -> bool:
        return case.context is not None

    def _value(self, case: Case) -> float | None:
        content = [w for w in words(case.text, case.language) if w not in FUNCTION_WORDS]
        if not content:
            return None
        context = {word for u in case.context or () for word in words(u.text, case.language)}
        return sum(word in context for word in content) / len(content)
