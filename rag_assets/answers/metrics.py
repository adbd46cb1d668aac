"""Metrics of answers, by name in :data:`METRICS`.

A failed answer, one that never came, counts 0 and stays in the mean, wherever the question's labels
and what is known of the answerer define the metric. A value that is not defined is null, and in no
mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_assets.answers.answer_text import VERSION, normal_form, words
from rag_assets.answers.cases import Case, Passage, evidence_ids_in
from rag_assets.answers.nuggets import FORMS, nugget_score
from rag_assets.code_versions.closure import Root


@dataclass(frozen=True)
class AnswerMetric:
    """One metric.

    Attributes:
        description: what it says, in a few words.
        formula: with what is not defined.
        source: who defined it.
        is_defined: whether the labels, and what is known of the answerer, define it.
        value: of an answer that came; None: not defined either.
        needs_gold: whether it compares with right answers.
        needs_evidence: whether it needs evidence labels.
        needs_nuggets: whether it needs nuggets.
        is_mean: whether its value over questions is the plain mean of their values, so that
            answerers can be compared question by question. In another mean a value counts
            1 + value times, beside the weight of its question.
    """

    description: str
    formula: str
    source: str
    is_defined: Callable[[Case], bool]
    value: Callable[[Case], float | None]
    needs_gold: bool = False
    needs_evidence: bool = False
    needs_nuggets: bool = False
    is_mean: bool = True

    def of(self, case: Case) -> float | None:
        """Return the value of one question: None where not defined, 0 where the answer failed."""
        if not self.is_defined(case):
            return None
        return 0.0 if case.answer is None else self.value(case)


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


def _has_gold(case: Case) -> bool:
    """Return False for an answerable question without a gold answer."""
    return bool(case.golds)


def _best_f1(case: Case) -> float:
    answer = words(case.text, case.language)
    return max(token_f1(gold.split(), answer) for gold in case.golds)


def _is_classified(case: Case) -> bool:
    """Return whether F1 of refusing, a classifier of the unanswerable questions, counts a question.

    It is 2TP / (2TP + FP + FN). TP: unanswerable and refused; FP: answerable and refused; FN:
    unanswerable, and answered or failed. A question's value is 1 for TP and 0 for FP and FN, and a
    TP counts twice in the mean: so the mean is F1. What is answered and answerable has none, nor
    has a question without labels.
    """
    answerable = case.question.answerable
    return answerable is False or (answerable is True and case.abstained)


def _cites(case: Case) -> bool:
    """Return whether it can be told that the answer cites the evidence, and only that.

    What is cited are spans that an extractive answer copied, or whole units of the context; no
    judge is asked. Recall is the share of the question's evidences that some citation satisfies,
    precision the share of the different citations that satisfy an evidence. An answer that cites
    everything has recall 1, so the headline is their harmonic mean, and recall is never shown
    alone. A citation of a unit that the context does not have satisfies nothing and stays in the
    denominator: inventing citations does not pay.

    It cannot for a question without labelled evidence, nor for any question of an answerer that
    cites nowhere. Where it cites somewhere, an answer without a citation counts 0.
    """
    return bool(case.question.evidence) and case.cites and case.context is not None


def _evidence_cited(case: Case) -> float:
    precision, recall = _precision(case), _recall(case)
    return 2 * precision * recall / (precision + recall) if recall else 0.0


def _precision(case: Case) -> float:
    cited = case.cited
    hits = [place for place in cited if place and evidence_ids_in(case.question.evidence, [place])]
    return len(hits) / len(cited) if cited else 0.0


def _recall(case: Case) -> float:
    evidence = case.question.evidence
    places = [place for place in case.cited if place is not None]
    return len(evidence_ids_in(evidence, places)) / len({item.evidence_id for item in evidence})


# fmt: off
FUNCTION_WORDS = frozenset((
    "and", "are", "as", "at", "be", "been", "but", "by", "did", "do", "does", "for", "from", "had",
    "has", "have", "he", "her", "his", "if", "in", "into", "is", "it", "its", "no", "not", "of",
    "on", "or", "she", "so", "such", "than", "that", "their", "then", "there", "these", "they",
    "this", "to", "was", "were", "which", "who", "will", "with", "would",
))
# fmt: on
"""Words of English that say nothing by themselves; `standard` has dropped a, an and the."""


def _grounded(case: Case) -> float | None:
    """Return the share of the answer's words that stand in the context.

    It knows no meaning: an answer that puts the right words into a wrong sentence is grounded, and
    a right answer in other words is not. Not defined for a refusal, or an answer of function words
    alone.
    """
    content = [w for w in words(case.text, case.language) if w not in FUNCTION_WORDS]
    if not content:
        return None
    context = {word for u in case.context or () for word in words(u.text, case.language)}
    return sum(word in context for word in content) / len(content)


_Supports = Sequence[tuple[bool, float]] | None
"""(Vital, support) of each nugget; None: that of one cannot be told."""


def _answer_supports(case: Case) -> _Supports:
    cited = [place for place in case.cited if place is not None] if _cites(case) else None
    return _supports(case, [(case.answer["answer"], cited)] if case.answer is not None else ())


def _context_supports(case: Case) -> _Supports:
    units = [(unit.text, [unit.place]) for unit in case.context or ()]
    return None if case.context is None else _supports(case, units)


def _supports(case: Case, texts: Iterable[tuple[str, Sequence[Passage] | None]]) -> _Supports:
    """Return the best support by any of some texts, each with the places that it holds or cites."""
    best = [0.0] * len(case.question.nuggets)
    for text, places in texts:
        held = evidence_ids_in(case.question.evidence, places or ())
        for number, nugget in enumerate(case.question.nuggets):
            if text not in nugget.verdicts and (places is None or nugget.evidence_id is None):
                return None
            by_place = float(nugget.evidence_id in held)
            best[number] = max(best[number], nugget.verdicts.get(text, by_place))
    return [
        (nugget.vital, support) for nugget, support in zip(case.question.nuggets, best, strict=True)
    ]


def _nuggets(form: str, supports_of: Callable[[Case], _Supports]) -> AnswerMetric:
    def value(case: Case) -> float | None:
        supports = supports_of(case)
        return None if supports is None else nugget_score(supports, form)

    return AnswerMetric(
        f"nuggets in the {'answer' if supports_of is _answer_supports else 'context'}",
        f"{FORMS[form][2]}; 0 without such a nugget, not defined where one's support is unknown",
        "AutoNuggetizer of TREC RAG 2024, arXiv:2504.15068",
        lambda case: bool(case.question.nuggets),
        value,
        needs_nuggets=True,
    )


_SQUAD = "Rajpurkar, Jia and Liang 2018, evaluate-v2.0.py"
_CITATIONS = (
    "spans instead of the judgments of Liu, Zhang and Liang 2023 (citation precision, recall)"
)

METRICS: Mapping[str, AnswerMetric] = {
    "answer_em": AnswerMetric(
        "the answer is a gold answer",
        "1 when the normal forms of the answer and of any gold answer are equal, else 0; a refusal "
        "is the empty answer, which is the gold answer of an unanswerable question",
        _SQUAD,
        _has_gold,
        lambda case: float(normal_form(case.text, case.language) in case.golds),
        needs_gold=True,
    ),
    "answer_f1": AnswerMetric(
        "words that the answer and a gold answer have in common",
        "the best over the gold answers of 2PR / (P + R), P and R the common words, with "
        "repetitions, of the answer's and of the gold answer's; of an empty one 1 if both are "
        "empty, else 0; refusals as for `answer_em`",
        _SQUAD,
        _has_gold,
        _best_f1,
        needs_gold=True,
    ),
    "abstained": AnswerMetric(
        "the answer refuses",
        "1 when the answer refuses, else 0; a failed answer does not refuse",
        f"the phrases of rag_assets.answers.answer_text, version {VERSION}",
        lambda case: True,
        lambda case: float(case.abstained),
    ),
    "abstention_f1": AnswerMetric(
        "refusals where there is no answer, and only there",
        "2TP / (2TP + FP + FN) over the questions: TP unanswerable and refused, FP answerable and "
        "refused, FN unanswerable and not refused; not defined where all three are 0",
        "van Rijsbergen 1979, of the refusals",
        _is_classified,
        lambda case: float(case.question.answerable is False and case.abstained),
        is_mean=False,
    ),
    "evidence_cited": AnswerMetric(
        "the evidence is cited, and nothing else",
        "2PR / (P + R) of the two below; 0 when both are 0",
        _CITATIONS,
        _cites,
        _evidence_cited,
        needs_evidence=True,
    ),
    "evidence_cited_precision": AnswerMetric(
        "what is cited is evidence",
        "different citations that satisfy an evidence / different citations; 0 without one",
        _CITATIONS,
        _cites,
        _precision,
        needs_evidence=True,
    ),
    "evidence_cited_recall": AnswerMetric(
        "evidence is cited",
        "evidences that a citation satisfies / evidences",
        _CITATIONS,
        _cites,
        _recall,
        needs_evidence=True,
    ),
    "grounded": AnswerMetric(
        "words of the answer that the context holds",
        "content words of the answer, with repetitions, that are in any unit of the context / "
        "content words of the answer; not defined without one, nor where the context is not known",
        "K-Precision of Adlakha et al. 2024, without function words",
        lambda case: case.context is not None,
        _grounded,
    ),
    "nugget_v_strict": _nuggets("v_strict", _answer_supports),
    "nugget_v": _nuggets("v", _answer_supports),
    "nugget_a_strict": _nuggets("a_strict", _answer_supports),
    "nugget_a": _nuggets("a", _answer_supports),
    "nugget_w": _nuggets("w", _answer_supports),
    "context_nugget_v_strict": _nuggets("v_strict", _context_supports),
    "context_nugget_v": _nuggets("v", _context_supports),
    "context_nugget_a_strict": _nuggets("a_strict", _context_supports),
    "context_nugget_a": _nuggets("a", _context_supports),
    "context_nugget_w": _nuggets("w", _context_supports),
}
"""Name of a metric -> what it is, in the order in which columns stand."""


def metric_code(names: Iterable[str]) -> list[Root]:
    """Return the roots of the code of some metrics."""
    return [f"{__name__}:METRICS[{name}]" for name in ("", *names)]
