"""All checks of one experiment: its files, its chunkings and its last evaluation.

What is sound is brought into the store on the way, as an evaluation would, so that a later one
need not read and cut it again. What is not sound is read to the end, and every problem told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from rag_assets.datasets.dataset import Read
from rag_assets.datasets.problems import collecting
from rag_assets.errors import DataError, ModelUnavailable, NotEvaluated, StoreError
from rag_assets.evaluation.judging import judgments
from rag_assets.evaluation.query_clusters import NONE
from rag_assets.label_health.churn import label_churn
from rag_assets.label_health.coverage import unreachable_evidence
from rag_assets.label_health.duplicate_documents import duplicate_documents
from rag_assets.label_health.duplicate_queries import duplicate_queries
from rag_assets.label_health.false_negatives import near_duplicate_documents, unjudged_twins
from rag_assets.label_health.filters import unmatched_filters
from rag_assets.label_health.findings import ERROR, FINDINGS, Finding, findings_table, rows
from rag_assets.label_health.ids import dangling_ids
from rag_assets.label_health.judged import DEFAULT_THRESHOLD, judged_at_k
from rag_assets.label_health.near_duplicates import near_duplicates
from rag_assets.label_health.reading import reading_problems
from rag_assets.label_health.unanswerable import queries_without_relevant
from rag_assets.pipeline.checks.drift_findings import drift_findings
from rag_assets.pipeline.evaluations import Evaluation, read_current
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages.chunks import chunks_key
from rag_assets.pipeline.stages.query_facts import QUERY_FACTS_KEY
from rag_assets.pipeline.stages.query_filters import uses_filters
from rag_assets.pipeline.stages.sources import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES, TableSchema
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.parquet_files import read_parquet


@dataclass(frozen=True)
class Validation:
    """What was found.

    Attributes:
        findings: table of :data:`rag_assets.label_health.findings.FINDINGS`, errors first.
        rows: how many documents, queries and judgments could be read.
        skipped: what was not checked, each with its reason.
    """

    findings: pa.Table
    rows: dict[str, int]
    skipped: tuple[str, ...]

    @property
    def n_errors(self) -> int:
        """How many findings are errors."""
        return sum(severity == ERROR for severity in self.findings["severity"].to_pylist())

    @property
    def n_warnings(self) -> int:
        """How many findings are warnings."""
        return len(self.findings) - self.n_errors


@dataclass(frozen=True)
class _Sources:
    documents: pa.Table
    queries: pa.Table
    qrels: pa.Table
    problems: pa.Table
    documents_sound: bool


def validate(pipeline: Pipeline, *, judged_threshold: float = DEFAULT_THRESHOLD) -> Validation:
    """Run every check of :mod:`rag_assets.label_health` on an experiment.

    Args:
        pipeline: the experiment and its store.
        judged_threshold: share of judged units below which a cell of the last evaluation is told.

    Raises:
        StoreError: the store cannot be written, or the last evaluation cannot be read.
    """
    sources = _read(pipeline)
    evaluation = _last_evaluation(pipeline)
    tables = [sources.problems, *_duplicate_checks(sources)]
    experiment = pipeline.experiment
    filtered = any(uses_filters(experiment, name) for name in experiment.retrievers)
    tables.append(unmatched_filters(sources.queries, sources.documents, used=filtered))
    skipped = []
    if pipeline.experiment.has_qrels:
        tables += _label_checks(sources)
        tables += _fact_checks(pipeline, sources)
        used = experiment.split or experiment.weight or experiment.statistics.cluster != NONE
        if sources.problems.num_rows and used:
            skipped.append("splits, weights and clusters: the files have errors")
        try:
            tables.append(_coverage(pipeline, sources))
        except (DataError, ModelUnavailable) as error:
            skipped.append(f"evidence that no chunk covers: {error}")
    else:
        skipped.append("labels: there are none yet")
    if evaluation is None:
        skipped.append("judged@k, label churn and drift: there is no evaluation yet")
    else:
        if not evaluation.entries_of("metrics_summary"):
            skipped.append("judged@k: the last evaluation had no labels")
        if not evaluation.entries_of(QRELS_KEY.asset):
            skipped.append("label churn: the last evaluation had no labels")
        tables.append(_judged(pipeline, evaluation, judged_threshold))
        tables.append(_churn(pipeline, evaluation, sources))
        drift, not_compared = drift_findings(pipeline, evaluation)
        tables.append(drift)
        skipped += not_compared
    parts = {"documents": sources.documents, "queries": sources.queries, "qrels": sources.qrels}
    counts = {name: table.num_rows for name, table in parts.items()}
    return Validation(_ordered(tables, sources.problems), counts, tuple(skipped))


def _read(pipeline: Pipeline) -> _Sources:
    dataset = pipeline.experiment.dataset
    documents, found = _part(pipeline, DOCUMENTS_KEY, DOCUMENTS, dataset.read_documents)
    queries, more = _part(pipeline, QUERIES_KEY, QUERIES, dataset.read_queries)
    qrels, labels = QRELS.empty(), list[DataError]()
    if pipeline.experiment.has_qrels:
        read = partial(dataset.read_qrels, documents, queries)
        # Broken documents or queries are not in the store, and labels are checked against both.
        in_store = not (found or more)
        qrels, labels = _part(pipeline, QRELS_KEY, QRELS, read, in_store=in_store)
    problems = reading_problems([*found, *more, *labels])
    return _Sources(documents, queries, qrels, problems, not found)


def _part(
    pipeline: Pipeline,
    key: ArtifactKey,
    schema: TableSchema,
    read: Callable[[], Read],
    *,
    in_store: bool = True,
) -> tuple[pa.Table, list[DataError]]:
    """Return a table from the store, or all rows that can be read and what is wrong with others."""
    first: list[DataError] = []
    if in_store:
        try:
            return pipeline.materialize(key.asset, [key])[0].artifact.table(), first
        except DataError as error:
            first = [error]
    table = schema.empty()
    with collecting() as problems:
        table = read().table
    return table, problems or first


def _label_checks(sources: _Sources) -> Iterable[pa.Table]:
    yield dangling_ids(sources.qrels, sources.documents, sources.queries)
    yield queries_without_relevant(sources.qrels, sources.queries)


def _fact_checks(pipeline: Pipeline, sources: _Sources) -> Iterable[pa.Table]:
    """Yield what is wrong with splits, weights and clusters, where all files can be read."""
    if sources.problems.num_rows:
        return
    try:
        pipeline.materialize(QUERY_FACTS_KEY.asset, [QUERY_FACTS_KEY])
    except DataError as error:
        yield findings_table([Finding(ERROR, QUERY_FACTS_KEY.asset, str(error))])


def _duplicate_checks(sources: _Sources) -> Iterable[pa.Table]:
    yield duplicate_queries(sources.queries, sources.qrels)
    yield duplicate_documents(sources.documents)
    pairs = near_duplicates(sources.documents.column("text"))
    yield near_duplicate_documents(sources.documents, pairs)
    yield unjudged_twins(sources.qrels, sources.documents, pairs)


def _coverage(pipeline: Pipeline, sources: _Sources) -> pa.Table:
    if not sources.documents_sound:
        raise DataError("the documents have errors")
    qrels, judged = sources.qrels, {}
    for name in pipeline.experiment.chunkings:
        key = chunks_key(name)
        chunks = pipeline.materialize(key.asset, [key])[0].artifact.table()
        judged[name] = judgments(qrels, chunks, pipeline.experiment.judge)
    return unreachable_evidence(judged, qrels)


def _last_evaluation(pipeline: Pipeline) -> Evaluation | None:
    try:
        return read_current(pipeline.store.root)
    except NotEvaluated:
        return None


def _judged(pipeline: Pipeline, evaluation: Evaluation, threshold: float) -> pa.Table:
    root = pipeline.store.root
    summaries = {
        entry.partition["retriever"]: _table(root / entry.path)
        for entry in evaluation.entries_of("metrics_summary")
    }
    return judged_at_k(summaries, threshold)


def _churn(pipeline: Pipeline, evaluation: Evaluation, sources: _Sources) -> pa.Table:
    """Follow the labels of the last evaluation, those of queries that are still asked."""
    parts = {
        asset: _table(pipeline.store.root / entry.path)
        for asset in ("documents", "qrels")
        for entry in evaluation.entries_of(asset)
    }
    if len(parts) < 2:
        return FINDINGS.empty()
    asked = set(sources.queries.column("query_id").to_pylist())
    churn = label_churn(parts["qrels"], parts["documents"], sources.documents)
    found = [finding for finding in rows(churn.findings) if finding.query_id in asked]
    since = f"since evaluation {evaluation.evaluation_id}"
    return findings_table(f._replace(message=f"{since}: {f.message}") for f in found)


def _table(path: Path) -> pa.Table:
    try:
        return read_parquet(path).replace_schema_metadata(None)
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(f"{path}: is not a readable artifact ({error})") from error


def _ordered(tables: Iterable[pa.Table], problems: pa.Table) -> pa.Table:
    """Unite findings, errors first; drop what only follows from a judgment that was not read."""
    broken = {query for query in problems.column("query_id").to_pylist() if query is not None}
    findings: list[Finding] = []
    for table in tables:
        findings += [
            f
            for f in rows(table)
            if f.severity == ERROR or f.query_id not in broken or f.check != "no_relevant_document"
        ]
    findings.sort(key=lambda finding: finding.severity != ERROR)
    return findings_table(findings)
