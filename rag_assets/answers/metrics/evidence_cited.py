"""``evidence_cited``: whether the answer cites the evidence, and only that; no judge is asked.

What is cited are spans that an extractive answer copied, or whole units of the context. Recall is
the share of the question's evidences that some citation satisfies, precision the share of the
different citations that satisfy an evidence. An answer that cites everything has recall 1, so the
headline is their harmonic mean. A citation of a unit that the context does not have satisfies
nothing and stays in the denominator: inventing citations does not pay.

Not defined for a question without labelled evidence, nor for any question of an answerer that cites
nowhere. Where it cites somewhere, an answer without a citation counts 0.
"""

from __future__ import annotations

from typing import ClassVar

from rag_assets.answers.cases import Case
from rag_assets.answers.evidence import Passage, evidence_ids_in
from rag_assets.answers.metrics.base import AnswerMetric

_SOURCE = "spans instead of the judgments of Liu, Zhang and Liang 2023 (citation precision, recall)"


class _Citations(AnswerMetric):
    source = _SOURCE
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
    cited = _cited(case)
    hits = [place for place in cited if place and evidence_ids_in(case.question.evidence, [place])]
    return len(hits) / len(cited) if cited else 0.0


def _recall(case: Case) -> float:
    evidence = case.question.evidence
    places = [place for place in _cited(case) if place is not None]
    return len(evidence_ids_in(evidence, places)) / len({one.evidence_id for one in evidence})


def _cited(case: Case) -> list[Passage | None]:
    """Return the place of each different citation; None for one of what is not in the context.

    A refusal cites nothing. Spans say more than the numbers of their units, so they come first.
    """
    if case.answer is None or case.abstained:
        return []
    units = dict(enumerate(case.context or (), 1))
    if case.answer.spans:
        places = []
        for number, start, end in dict.fromkeys(case.answer.spans):
            unit = units.get(number)
            inside = unit is not None and 0 <= start < end <= len(unit.text)
            first = unit.place.start if unit else 0
            document_id = unit.place.document_id if unit else ""
            places.append(Passage(document_id, first + start, first + end) if inside else None)
        return places
    numbers = dict.fromkeys(case.answer.cited or ())
    return [units[number].place if number in units else None for number in numbers]
