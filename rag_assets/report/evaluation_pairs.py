"""Two evaluations, or two retrievers in one, compared query by query.

Only queries that both have may be compared. A query is the same in both when its text is, and its
labels are. Labels are compared by what they point at: a quote that moved because its document was
edited above it is the same evidence. Where answerers are compared, right answers are labels too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts import with_shared_documents
from rag_assets.evaluation.query_facts_stage import counting_of
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.reasons import Reason
from rag_assets.report.metric_choice import check_paired, is_judged, is_sampled
from rag_assets.report.result import EvaluationResult, pairs_of
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.comparisons import difference
from rag_assets.statistics.intervals import largest_value, number_or_none
from rag_assets.statistics.paired_differences import PairedDifferences, shared_evidence
from rag_assets.statistics.shared_evidence import SharedEvidence
from rag_assets.statistics.units import SAME, Counted, Floats, Resampling, counted_by_split

Row = dict[str, Any]

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


def comparability(
    a: EvaluationResult, b: EvaluationResult, *, answers: bool = False
) -> Comparability:
    """Return what two evaluations share.

    Args:
        a: one; without ``answers`` it must have labels.
        b: the other.
        answers: answerers are compared: questions without evidence count too.

    Raises:
        UsageError: they judge different units, so that no query is comparable.
    """
    _check_judge(a.evaluation, b.evaluation)
    if is_same(a, b, "queries") and is_same(a, b, "qrels"):
        asset = "queries" if answers else "qrels"
        return Comparability(frozenset(b.table_of(asset)["query_id"].to_pylist()), ())
    quoted = has_documents(a) and has_documents(b)
    old, new = (_labels(one, quoted=quoted) for one in (a, b))
    if answers:
        old, new = (
            {query: labels.get(query, Counter()) + golds for query, golds in _golds(one).items()}
            for one, labels in ((a, old), (b, new))
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


def _check_judge(a: Evaluation, b: Evaluation) -> None:
    judged = [one.origin.configuration.get("judge") for one in (a, b)]
    if None not in judged and judged[0] != judged[1]:
        raise UsageError(
            f"evaluation {a.evaluation_id} judges each {judged[0]}, {b.evaluation_id} each "
            f"{judged[1]}; their metrics are not comparable"
        )


def is_same(a: EvaluationResult, b: EvaluationResult, asset: str) -> bool:
    """Return whether an asset has one content in both; its digest says so without reading it."""
    old, new = ({e.digest for e in one.evaluation.entries_of(asset)} for one in (a, b))
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


@dataclass(frozen=True)
class EvaluationPair:
    """Two evaluations, seen through one metric and one split of the newer one.

    Attributes:
        old: the evaluation that is compared with.
        new: its queries, weights, clusters and splits count for both.
        metric: with its cut-off.
        split: ``all``, ``dev`` or ``test``.
        queries: ids of those that are compared.
    """

    old: EvaluationResult
    new: EvaluationResult
    metric: Metric
    split: str
    queries: Collection[str]

    @classmethod
    def of(
        cls,
        old: EvaluationResult,
        new: EvaluationResult,
        queries: Collection[str],
        metric: Metric | None = None,
        split: str | None = None,
    ) -> EvaluationPair:
        """Choose metric and split; the primary one, and test where there is one, by default.

        Raises:
            NotEvaluated: no cell of the newer evaluation has the metric.
            UsageError: there is no such split, or single queries have no share in the metric.
        """
        chosen = metric or new.primary
        check_paired(chosen)
        pair = cls(old, new, chosen, new.counted_split(split), queries)
        if not pair.new_cells:
            name = new.evaluation.evaluation_id
            raise NotEvaluated(f"evaluation {name} has no cell of {chosen}")
        return pair

    @cached_property
    def resampling(self) -> Resampling:
        """How the newer evaluation's own intervals were computed."""
        for asset in ("intervals", "answer_summary"):
            for entry in self.new.evaluation.entries_of(asset):
                manifest = self.new.manifest_of(entry)
                if manifest is not None:
                    config = manifest.config
                    return Resampling(config["confidence"], config["resamples"], config["seed"])
        return Resampling()

    @cached_property
    def counting(self) -> pa.Table:
        """What of each compared query of the split counts, in the newer evaluation."""
        counting = counting_of(self.new.table)
        if self.new.has_metrics:
            counting = with_shared_documents(counting, self.new.table(QRELS_KEY))
        chosen = pc.is_in(counting["query_id"], pa.array(sorted(self.queries), pa.string()))
        return counting.filter(pc.and_(chosen, pc.equal(counting["split"], self.split)))

    @cached_property
    def evidence(self) -> SharedEvidence | None:
        """What the compared queries share; None: nothing, or clusters stand for it.

        None also of what a judge or a sample of labels says: its intervals are of another kind.
        """
        if is_judged(self.metric) or is_sampled(self.metric):
            return None
        tables = [*self.old_cells.values(), *self.new_cells.values()]
        counted = next(counted_by_split(self.counting, tables), None)
        return None if counted is None else shared_evidence(counted)

    @cached_property
    def old_cells(self) -> Mapping[str, pa.Table]:
        """Retriever -> query metrics of the older evaluation at the cut-off."""
        return self.old.cells_with(self.metric)

    @cached_property
    def new_cells(self) -> Mapping[str, pa.Table]:
        """Retriever -> query metrics of the newer evaluation at the cut-off."""
        return self.new.cells_with(self.metric)

    def row(self, old: str, new: str) -> Row | None:
        """Compare retriever ``new`` of the newer evaluation with ``old`` of the older one.

        Returns:
            ``retriever`` (of an answerer its name and cut-off), ``old``, ``new`` (means), and the
            columns of :data:`rag_assets.schemas.COMPARISONS` that compare them; None when no query
            has a value in both, or one of them has no such cell.
        """
        if old not in self.old_cells or new not in self.new_cells:
            return None
        tables = self.old_cells[old], self.new_cells[new]
        for counted in counted_by_split(self.counting, tables):
            before, after = (counted.values(table, self.metric.column) for table in tables)
            if (~(np.isnan(before) | np.isnan(after))).any():
                lead = {"retriever": new, "split": self.split, "metric": str(self.metric)}
                return {**lead, **self._compared(counted, before, after)}
        return None

    def _compared(self, counted: Counted, before: Floats, after: Floats) -> Row:
        """Return the means and how sure their difference is.

        The signed-rank test of other comparisons is left out: it takes seconds for 8 to 13 queries.
        """
        both = ~(np.isnan(before) | np.isnan(after))
        gained, weights = (after - before)[both], counted.weights[both]
        paired = PairedDifferences(counted, (after - before)[:, None])
        low, high = paired.intervals(self.resampling.confidence, largest_value(before, after))
        won, lost = int((gained > SAME).sum()), int((gained < -SAME).sum())
        return {
            "old": difference(before[both], weights),
            "new": difference(after[both], weights),
            "n": gained.size,
            "n_clusters": int(np.count_nonzero(paired.units.weights)),
            "difference": difference(gained, weights),
            "low": number_or_none(low[0]),
            "high": number_or_none(high[0]),
            "p_randomisation": paired.p_values(self.resampling)[0],
            "won": won,
            "tied": gained.size - won - lost,
            "lost": lost,
        }

    def rows(self, retrievers: Collection[str] = ()) -> list[Row]:
        """Return a row for each retriever that both evaluations have, of those wanted."""
        names = [name for name in self.new_cells if name in self.old_cells]
        rows = [self.row(name, name) for name in names if not retrievers or name in retrievers]
        return [row for row in rows if row is not None]
