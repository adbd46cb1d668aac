"""Pairs of retrievers of one evaluation, compared on any of its metrics and splits.

A verdict is what a comparison comes to, in one sentence that claims no more than was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.summary_stage import ANSWER_COMPARISONS_KEY
from rag_assets.errors import NotEvaluated, allowed_names
from rag_assets.evaluation.metric_names import Metric, highest_value, is_gain
from rag_assets.evaluation.query_facts import with_shared_documents
from rag_assets.evaluation.query_facts_stage import counting_of
from rag_assets.report.evaluation_pairs import Cells, MetricSource
from rag_assets.report.formats import p_text
from rag_assets.report.metric_sources import Retrieval
from rag_assets.report.result import EvaluationResult, Row, pairs_of
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.comparisons import Pairs, all_pairs, comparisons, is_significant
from rag_assets.statistics.intervals import intervals
from rag_assets.statistics.paired_differences import shared_evidence
from rag_assets.statistics.shared_evidence import SharedEvidence
from rag_assets.statistics.stage import COMPARISONS_KEY, SHARED
from rag_assets.statistics.units import Resampling, counted_by_split
from rag_assets.store.artifacts import ArtifactKey


def verdict(row: Row, n_pairs: int, caveat: str | None = None) -> str:
    """Return the sentence.

    Args:
        row: of :data:`rag_assets.schemas.COMPARISONS`.
        n_pairs: size of the family that ``p_adjusted`` was adjusted for.
        caveat: what limits the claim; None: nothing.
    """
    a, b, metric = row["retriever_a"], row["retriever_b"], row["metric"]
    metric += f"@{row['top_k']}" if row["top_k"] else ""  # answerers have it in their names
    if row["difference"] is None:
        return f"nothing to compare: {a} and {b} have no query with a value of {metric} in common"
    if row["won"] == row["lost"] == 0:
        return f"{b} and {a} do the same on every query by {metric} ({row['n']} queries)"
    better, worse = (b, a) if is_gain(row["metric"], row["difference"]) else (a, b)
    size = f"{abs(row['difference']):.4f}"
    if row["low"] is not None:
        rises = row["difference"] > 0
        low, high = (row["low"], row["high"]) if rises else (-row["high"], -row["low"])
        size += f" [{low:.4f}, {high:.4f}]"
    p = f"p = {p_text(row['p_randomisation'])}"
    if row["p_adjusted"] is not None and n_pairs > 1:
        p += f" (Holm over {n_pairs} pairs {p_text(row['p_adjusted'])})"
    if is_significant(row):
        clustered = row["n_clusters"] < row["n"]
        limits = f"; {row['n']} queries in {row['n_clusters']} clusters" if clustered else ""
        limits = f"; but {caveat}" if caveat else limits
        return f"{better} is better than {worse} on {metric} by {size}, {p}{limits}"
    return (
        f"no difference shown between {a} and {b} on {metric}: "
        f"{better} is ahead by {size}, {p}{power_text(row)}"
    )


def power_text(row: Mapping[str, Any], noun: str = "queries") -> str:
    """Return which difference the queries of a pair can show; empty where that is not known.

    No difference is larger than the highest value of the metric.
    """
    smallest = row["detectable"]
    if smallest is None:
        return ""
    clusters = f" in {row['n_clusters']} clusters" if row["n_clusters"] < row["n"] else ""
    if smallest > highest_value(row["metric"]):
        return f"; {row['n']} {noun}{clusters} are too few to show any difference"
    return f"; {row['n']} {noun}{clusters} can show {smallest:.4f} or more"


_CLUSTER = "`statistics: {cluster: document}`"


@dataclass(frozen=True)
class Compared:
    """An evaluation, seen through one metric and one split.

    Attributes:
        result: the evaluation.
        source: the metric: of retrieval with its cut-off, or of answers.
        split: ``all``, ``dev`` or ``test``.
    """

    result: EvaluationResult
    source: MetricSource
    split: str

    @classmethod
    def of(
        cls, result: EvaluationResult, source: MetricSource | None = None, split: str | None = None
    ) -> Compared:
        """Choose metric and split; the primary one, and test where there is one, by default.

        Raises:
            NotEvaluated: no cell of the evaluation has the metric.
            UsageError: there is no such split, or single questions have no share in the metric.
        """
        source = source or Retrieval(result.primary)
        source.check_mean()
        source.check_single("compared by `rag-assets compare` and `judged_differences`")
        source.check(result)
        return cls(result, source, result.counted_split(split))

    @property
    def metric(self) -> Metric:
        """The metric, with its cut-off."""
        return self.source.metric

    @property
    def column(self) -> str:
        """The metric's column in the query metrics."""
        return self.metric.column

    @cached_property
    def cells(self) -> Cells:
        """Retriever -> query metrics at the cut-off, in the order of the experiment."""
        return self.source.cells(self.result)

    @cached_property
    def counting(self) -> pa.Table:
        """What of each query of the split counts."""
        counting = counting_of(self.result.table)
        return counting.filter(pc.equal(counting["split"], self.split))

    @cached_property
    def tested_counting(self) -> pa.Table:
        """The same with the documents that queries share, where tests allow for them."""
        if not self._config.get(SHARED):
            return self.counting
        return with_shared_documents(self.counting, self.result.table(QRELS_KEY))

    @cached_property
    def evidence(self) -> SharedEvidence | None:
        """What the queries share; None: nothing, or clusters stand for it."""
        counted = next(counted_by_split(self.tested_counting, self.cells.values()), None)
        return None if counted is None else shared_evidence(counted)

    @property
    def caveat(self) -> str | None:
        """What limits a claim because queries share documents; None: nothing does."""
        return None if self.evidence is None else self.evidence.caveat()

    @property
    def _key(self) -> ArtifactKey:
        return ANSWER_COMPARISONS_KEY if self.source.is_of_answers else COMPARISONS_KEY

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        """How the evaluation's own comparisons were computed; empty where it has none."""
        manifest = self.result.manifest(self._key)
        return manifest.config if manifest is not None else {}

    @property
    def resampling(self) -> Resampling:
        """How intervals and the randomisation test of the evaluation were resampled.

        Raises:
            NotEvaluated: the evaluation has no comparisons.
        """
        config = self._config
        if not config:
            name = self.result.evaluation.experiment
            problem = f"the last evaluation of {name} compared no {self.source.subject}s"
            raise NotEvaluated(f"{problem}; evaluate at least two")
        return Resampling(config["confidence"], config["resamples"], config["seed"])

    @cached_property
    def family(self) -> dict[frozenset[str], float]:
        """Pair -> p after Holm's correction over all pairs by the metric."""
        is_stored = self.metric == self.result.primary or self.source.is_of_answers
        stored = self.result.table(self._key).to_pylist() if is_stored else ()
        of_split = [
            row for row in stored if (row["split"], row["metric"]) == (self.split, self.column)
        ]
        rows = of_split if is_stored else self._compared(all_pairs(list(self.cells))).to_pylist()
        a, b = (f"{self.source.subject if is_stored else 'retriever'}_{side}" for side in "ab")
        return {
            frozenset((row[a], row[b])): row["p_adjusted"]
            for row in rows
            if row["p_adjusted"] is not None
        }

    def rows(self, wanted: Pairs) -> list[Row]:
        """Return a row of :data:`rag_assets.schemas.COMPARISONS` for each wanted pair.

        ``p_adjusted`` is that of the evaluation's family of all pairs, whichever are wanted.

        Raises:
            NotEvaluated: a retriever has no such cell.
        """
        self.check(*dict.fromkeys(name for pair in wanted for name in pair))
        rows: list[Row] = self._compared(wanted).to_pylist()
        for row in rows:
            pair = frozenset((row["retriever_a"], row["retriever_b"]))
            row["p_adjusted"] = self.family.get(pair)
        return rows

    def _compared(self, pairs: Pairs) -> pa.Table:
        metric = (self.column, self.metric.cutoff or 0)
        return comparisons(self.cells, self.tested_counting, metric, self.resampling, pairs)

    def verdict(self, row: Row) -> str:
        """Return what one of the rows comes to, in one sentence."""
        return verdict(row, len(self.family), self.caveat)

    def check(self, *retrievers: str) -> None:
        """Refuse a retriever without a cell of the metric.

        Raises:
            NotEvaluated: one has none, or the evaluation has no such retriever.
        """
        names = list(self.cells) if self.source.is_of_answers else self.result.run_retrievers
        for name in retrievers:
            if name not in self.cells:
                problem = f"no cell of {name} at top_k {self.metric.cutoff}"
                if name not in names:
                    problem = f"no {self.source.subject} {allowed_names(name, names)}"
                experiment = self.result.evaluation.experiment
                raise NotEvaluated(f"the last evaluation of {experiment} has {problem}")

    def values(self, retriever: str) -> dict[str, float]:
        """Return query -> value, of the split's queries that have one."""
        weights = pairs_of(self.counting, "query_id", "weight")
        values = pairs_of(self.cells[retriever], "query_id", self.column)
        return {q: value for q, value in values.items() if value is not None and weights.get(q)}

    def mean_intervals(self, a: str, b: str) -> dict[str, Row]:
        """Return retriever -> its interval over the queries on which both have a value."""
        both = pa.array(sorted(self.values(a).keys() & self.values(b).keys()), pa.string())
        rows_of = {}
        for name in (a, b):
            table = self.cells[name].select(["query_id", "n_relevant", self.column])
            paired = table.filter(pc.is_in(table["query_id"], both))
            cell = {self.metric.cutoff or 0: paired}
            rows = intervals(cell, self.counting, self.resampling.confidence).to_pylist()
            if rows:
                rows_of[name] = rows[0]
        return rows_of

    @property
    def notes(self) -> list[str]:
        """On which questions a pair is fair; that queries share documents, and what was done."""
        golds = self.result.gold_answerers if self.source.is_of_answers else []
        notes = [
            f"note: {name} refuses unanswerable questions by itself, as it has nothing to read "
            "there; pairs with it are compared on the answerable ones"
            for name in golds
            if any(key.rpartition("@")[0] == name for key in self.cells)
        ]
        n_queries = self._queries_per_document()
        if n_queries is None:
            return notes
        beginning = f"note: a relevant document serves {n_queries:.1f} queries on average"
        if self.evidence is None:  # not compared, or long ago
            return [*notes, f"{beginning}; {_CLUSTER} takes those that share documents together"]
        allowed = "p and the interval of a difference allow for that"
        caveat = "" if self.caveat is None else f"; {self.caveat}"
        together = "takes them together in the interval of each mean too"
        return [*notes, f"{beginning}; {allowed}{caveat}. {_CLUSTER} {together}"]

    def _queries_per_document(self) -> float | None:
        """Return how many queries a relevant document serves; None where queries stand alone.

        None also where queries are clustered: then it was thought of.
        """
        clusters = pairs_of(self.counting, "query_id", "cluster")
        if not self.result.has_metrics or any(q != cluster for q, cluster in clusters.items()):
            return None
        qrels = self.result.table(QRELS_KEY)
        relevant = qrels.filter(pc.greater(qrels["grade"], 0))
        columns = (relevant[name].to_pylist() for name in ("query_id", "document_id"))
        pairs = {pair for pair in zip(*columns, strict=True) if pair[0] in clusters}
        documents = {document_id for _, document_id in pairs}
        return len(pairs) / len(documents) if len(pairs) > len(documents) else None
