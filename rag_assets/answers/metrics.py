"""Metrics of answers, by name in :data:`METRICS`.

A failed answer, one that never came, counts 0 and stays in the mean, wherever the question's labels
and what is known of the answerer define the metric. A value that is not defined is null, and in no
mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rag_assets.answers.answer_text import VERSION, normal_form, words
from rag_assets.answers.cases import Case, evidence_ids_in
from rag_assets.errors import UsageError, allowed_names


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


class Abstained(AnswerMetric):
    """How often an answerer refuses; neither high nor low is better: see :class:`AbstentionF1`."""

    name = "abstained"
    description = "the answer refuses"
    formula = "1 when the answer refuses, else 0; a failed answer does not refuse"
    source = f"the phrases of rag_assets.answers.answer_text, version {VERSION}"

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


class _Citations(AnswerMetric):
    """Whether the answer cites the evidence, and only that; no judge is asked.

    What is cited are spans that an extractive answer copied, or whole units of the context. Recall
    is the share of the question's evidences that some citation satisfies, precision the share of
    the different citations that satisfy an evidence. An answer that cites everything has recall 1,
    so the headline is their harmonic mean. A citation of a unit that the context does not have
    satisfies nothing and stays in the denominator: inventing citations does not pay.

    Not defined for a question without labelled evidence, nor for any question of an answerer that
    cites nowhere. Where it cites somewhere, an answer without a citation counts 0.
    """

    source = (
        "spans instead of the judgments of Liu, Zhang and Liang 2023 (citation precision, recall)"
    )
    needs_evidence: ClassVar[bool] = True
    needs_context: ClassVar[bool] = True

    def _is_defined(self, case: Case) -> bool:
        return bool(case.question.evidence) and case.cites and case.context is not None


class EvidenceCited(_Citations):
    """Harmonic mean of the two below."""

    name = "evidence_cited"
    description = "the evidence is cited, and nothing else"
    formula = "2PR / (P + R) of the two below; 0 when both are 0"

    def _value(self, case: Case) -> float:
        precision, recall = _precision(case), _recall(case)
        return 2 * precision * recall / (precision + recall) if recall else 0.0


class EvidenceCitedPrecision(_Citations):
    """Of the citations."""

    name = "evidence_cited_precision"
    description = "what is cited is evidence"
    formula = "different citations that satisfy an evidence / different citations; 0 without one"

    def _value(self, case: Case) -> float:
        return _precision(case)


class EvidenceCitedRecall(_Citations):
    """Of the evidences: high for an answer that cites everything, so it is never shown alone."""

    name = "evidence_cited_recall"
    description = "evidence is cited"
    formula = "evidences that a citation satisfies / evidences"

    def _value(self, case: Case) -> float:
        return _recall(case)


def _precision(case: Case) -> float:
    cited = case.cited
    hits = [place for place in cited if place and evidence_ids_in(case.question.evidence, [place])]
    return len(hits) / len(cited) if cited else 0.0


def _recall(case: Case) -> float:
    evidence = case.question.evidence
    places = [place for place in case.cited if place is not None]
    return len(evidence_ids_in(evidence, places)) / len({one.evidence_id for one in evidence})


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
    """The share of the answer's words that stand in the context.

    It knows no meaning: an answer that puts the right words into a wrong sentence is grounded, and
    a right answer in other words is not. Not defined for a refusal, or an answer of function words
    alone; a failed answer counts 0.
    """

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


METRICS: dict[str, type[AnswerMetric]] = {
    metric.name: metric
    for metric in (
        ExactMatch,
        TokenF1,
        Abstained,
        AbstentionF1,
        EvidenceCited,
        EvidenceCitedPrecision,
        EvidenceCitedRecall,
        Grounded,
    )
}
"""Name of a metric -> its class, in the order in which columns stand."""


def metrics_of(names: Iterable[str]) -> list[AnswerMetric]:
    """Return the metrics of these names, each once.

    Raises:
        UsageError: one is unknown.
    """
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in METRICS:
            raise UsageError(f"unknown metric of answers {allowed_names(name, METRICS)}")
    return [METRICS[name]() for name in chosen]
