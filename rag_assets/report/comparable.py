"""Which queries two evaluations have in common: only on those may their metrics be compared.

A query is the same in both when its text is, and its labels are. Labels are compared by what they
point at: a quote that moved because its document was edited above it is the same evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rag_assets.errors import UsageError
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.reasons import Reason
from rag_assets.report.result import EvaluationResult

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
        return (
            f"their means are not comparable: {why}. --intersection compares on the "
            f"{len(self.shared)} queries that are the same in both"
        )


def comparability(a: EvaluationResult, b: EvaluationResult) -> Comparability:
    """Return what two evaluations with labels share.

    Raises:
        UsageError: they judge different units, so that no query is comparable.
    """
    _check_judge(a.evaluation, b.evaluation)
    same = {asset: _same(a, b, asset) for asset in ("queries", "qrels")}
    if all(same.values()):
        return Comparability(frozenset(b.table_of("qrels")["query_id"].to_pylist()), ())
    quoted = all(_has_documents(one) for one in (a, b))
    old, new = _labels(a, quoted=quoted), _labels(b, quoted=quoted)
    old_texts, new_texts = _texts(a), _texts(b)
    both = old.keys() & new.keys()
    shared = {q for q in both if old[q] == new[q] and old_texts[q] == new_texts[q]}
    counts = {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "with another text": sum(old_texts[q] != new_texts[q] for q in both),
        "with other labels": sum(old[q] != new[q] for q in both),
    }
    reasons = [Reason(f"{_queries(n)} {verb}") for verb, n in counts.items() if n]
    return Comparability(frozenset(shared), tuple(reasons))


def _queries(count: int) -> str:
    return f"{count} labelled {'query' if count == 1 else 'queries'}"


def _check_judge(a: Evaluation, b: Evaluation) -> None:
    judged = [one.origin.configuration.get("judge") for one in (a, b)]
    if None not in judged and judged[0] != judged[1]:
        raise UsageError(
            f"evaluation {a.evaluation_id} judges each {judged[0]}, {b.evaluation_id} each "
            f"{judged[1]}; their metrics are not comparable"
        )


def _same(a: EvaluationResult, b: EvaluationResult, asset: str) -> bool:
    """Whether an asset has one content in both; its digest says so without reading it."""
    digests = [{entry.digest for entry in one.evaluation.entries_of(asset)} for one in (a, b)]
    return digests[0] == digests[1]


def _texts(result: EvaluationResult) -> Mapping[str, str]:
    columns = (result.queries.column(name).to_pylist() for name in ("query_id", "text"))
    return dict(zip(*columns, strict=True))


def _has_documents(result: EvaluationResult) -> bool:
    """Whether its documents are still there; else labels are compared by their positions."""
    entries = result.evaluation.entries_of("documents")
    return bool(entries) and (result.root / entries[0].path).exists()


def _labels(result: EvaluationResult, *, quoted: bool) -> Labels:
    evidences: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for row, text in _quoted(result, quoted=quoted):
        key = row["query_id"], row["evidence_id"]
        place = text if quoted else (row["start"], row["end"])
        evidences[key].add((row["document_id"], place, row["grade"]))
    labels: Labels = {}
    for (query_id, _), alternatives in evidences.items():
        labels.setdefault(query_id, Counter())[frozenset(alternatives)] += 1
    return labels


def _quoted(
    result: EvaluationResult, *, quoted: bool
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield every judgment with the text that it points at, where that is wanted.

    None: it points at a whole document, or the text is not wanted.
    """
    rows = result.table_of("qrels").to_pylist()
    wanted = {row["document_id"] for row in rows if quoted and row["start"] is not None}
    texts: dict[str, str] = {}
    if wanted:
        documents = result.table_of("documents").select(["document_id", "text"])
        for batch in documents.to_batches(max_chunksize=1_000):
            columns = (column.to_pylist() for column in batch.columns)
            texts |= {name: text for name, text in zip(*columns, strict=True) if name in wanted}
    for row in rows:
        text = texts.get(row["document_id"]) if row["start"] is not None else None
        yield row, None if text is None else text[row["start"] : row["end"]]
