"""``answer_f1``: how many words the answer and a right one have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from rag_assets.answers.cases import Case
from rag_assets.answers.metrics.base import AnswerMetric
from rag_assets.answers.normalisation import words


def token_f1(gold: Sequence[str], answer: Sequence[str]) -> float:
    """Return 2PR / (P + R) of two bags of words; 1 where both are empty, 0 where one is."""
    if not gold and not answer:
        return 1.0
    common = (Counter(gold) & Counter(answer)).total()
    if common == 0:
        return 0.0
    # The script's own order of operations: the last bit is its too.
    precision, recall = common / len(answer), common / len(gold)
    return 2 * precision * recall / (precision + recall)


class TokenF1(AnswerMetric):
    """Not defined for an answerable question without a gold answer."""

    name = "answer_f1"
    description = "words that the answer and a gold answer have in common"
    formula = (
        "the best over the gold answers of 2PR / (P + R), P and R the common words, with "
        "repetitions, of the answer's and of the gold answer's; of an empty one 1 if both are "
        "empty, else 0; refusals as for `answer_em`"
    )
    source = "Rajpurkar, Jia and Liang 2018, evaluate-v2.0.py"
    needs_gold: ClassVar[bool] = True

    def _is_defined(self, case: Case) -> bool:
        return bool(case.golds)

    def _value(self, case: Case) -> float:
        answer = words(case.text, case.language)
        return max(token_f1(gold.split(), answer) for gold in case.golds)
