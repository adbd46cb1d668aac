"""Which queries two evaluations share, so that their metrics may be compared.

A query is the same in both when its text is, and its labels are. Labels are compared by what they
point at: a quote that moved because its document was edited above it is the same evidence. Where
answerers are compared, right answers are labels too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_assets.analysis.result import EvaluationResult
from rag_assets.errors import UsageError
from rag_assets.pipeline.reasons import Reason
from rag_assets.pipeline.stored_evaluation import pairs_of

Labels = dict[str, Counter[Any]]
"""Query -> its evidences, each with the documents, texts and grades that are alternatives."""


@dataclass(frozen=True)
class Comparability:
    """What two evaluations share.

    Attributes:
        shared: labelled queries that are the same in both.
        reasons: what keeps the others apart; none: all are the same.
    """

    shared: frozenset[str]
    reasons: tuple[Reason, ...]

    def chosen(self, *, intersection: bool) -> frozenset[str]:
        """Return the queries to compare.

        Raises:
            UsageError: the evaluations differ and ``intersection`` was not asked for, or no query
                is the same in both.
        """
        if self.reasons and not intersection:
            raise UsageError(self.refusal)
        if not self.shared:
            raise UsageError("no labelled query is the same in both evaluations")
        return self.shared

    @property
    def refusal(self) -> str:
        """Why their metrics are not compared, and what may be done instead."""
        why = "; ".join(reason.text for reason in self.reasons)
        same = f"the {len(self.shared)} queries that are the same in both"
        return f"their means are not comparable: {why}. --intersection compares on {same}"


def comparability(
    a: EvaluationResult, b: EvaluationResult, *, answers: bool = False, sampled: bool = False
) -> Comparability:
    """Return what two evaluations share.

    Args:
        a: one; without ``answers`` and ``sampled`` it must have labels.
        b: the other.
        answers: answerers are compared: questions without evidence count too.
        sampled: a sample of labels counts, the newer one for both: questions need the same text.

    Raises:
        UsageError: they judge different units, so that no query is comparable.
    """
    judged = [each.evaluation.origin.configuration.get("judge") for each in (a, b)]
    if None not in judged and judged[0] != judged[1]:
        old_id, new_id = (each.evaluation.evaluation_id for each in (a, b))
        problem = f"evaluation {old_id} judges each {judged[0]}, {new_id} each {judged[1]}"
        raise UsageError(f"{problem}; their metrics are not comparable")
    if is_same(a, b, "queries") and is_same(a, b, "qrels"):
        asset = "queries" if answers or sampled else "qrels"
        return Comparability(frozenset(b.table_of(asset)["query_id"].to_pylist()), ())
    quoted = has_documents(a) and has_documents(b) and not sampled
    old, new = (_labels(result, quoted=quoted) for result in (a, b))
    if sampled:
        old, new = ({query: Counter() for query in question_texts(result)} for result in (a, b))
    if answers:
        old, new = (
            {query: labels.get(query, Counter()) + golds for query, golds in _golds(result).items()}
            for result, labels in ((a, old), (b, new))
        )
    old_texts, new_texts = question_texts(a), question_texts(b)
    both = old.keys() & new.keys()
    shared = {q for q in both if old[q] == new[q] and old_texts[q] == new_texts[q]}
    counts = {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "with another text": sum(old_texts[q] != new_texts[q] for q in both),
        "with other labels": sum(old[q] != new[q] for q in both),
    }
    reasons = [
        Reason(f"{n} labelled {'query' if n == 1 else 'queries'} {what}")
        for what, n in counts.items()
        if n
    ]
    return Comparability(frozenset(shared), tuple(reasons))


def is_same(a: EvaluationResult, b: EvaluationResult, asset: str) -> bool:
    """Return whether an asset has one content in both; its digest says so without reading it."""
    old, new = ({e.digest for e in result.evaluation.entries_of(asset)} for result in (a, b))
    return old == new


def question_texts(result: EvaluationResult) -> Mapping[str, str]:
    """Return query -> its text."""
    return pairs_of(result.queries, "query_id", "text")


def _golds(result: EvaluationResult) -> Labels:
    """Return the right answers of every question, as labels."""
    answers = pairs_of(result.table_of("query_facts"), "query_id", "answers")
    return {query_id: Counter(of_query) for query_id, of_query in answers.items()}


def has_documents(result: EvaluationResult) -> bool:
    """Whether its documents are still there; else labels are compared by their positions."""
    entries = result.evaluation.entries_of("documents")
    return bool(entries) and (result.root.parent / entries[0].path).exists()


def _labels(result: EvaluationResult, *, quoted: bool) -> Labels:
    """Return the labels, by the texts that they point at, or by positions where not ``quoted``."""
    rows = result.table_of("qrels").to_pylist() if result.has_metrics else []
    ids = {row["document_id"] for row in rows if quoted and row["start"] is not None}
    documents = result.documents(ids) if ids else {}
    evidences: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for row in rows:
        document_id, start, end = row["document_id"], row["start"], row["end"]
        place: object = (start, end)
        if quoted:
            place = None if start is None else documents[document_id][1][start:end]
        evidences[row["query_id"], row["evidence_id"]].add((document_id, place, row["grade"]))
    labels: Labels = {}
    for (query_id, _), alternatives in evidences.items():
        labels.setdefault(query_id, Counter())[frozenset(alternatives)] += 1
    return labels
