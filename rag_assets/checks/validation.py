"""All checks of one experiment: its files, its chunkings and its last evaluation.

What is sound is brought into the store on the way, as an evaluation would, so that a later one
need not read and cut it again. What is not sound is read to the end, and every problem told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.checks.answer_findings import answer_findings
from rag_assets.checks.drift import drift_findings
from rag_assets.chunking.index_texts import texts_from_file
from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import DataError, ModelUnavailable, NotEvaluated
from rag_assets.evaluation.query_facts import NONE
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.labels.health.duplicates import (
    duplicate_documents,
    duplicate_queries,
    near_duplicate_documents,
    unjudged_twins,
)
from rag_assets.labels.health.findings import (
    ERROR,
    FINDINGS,
    Finding,
    findings_table,
    reading_problems,
    rows,
)
from rag_assets.labels.health.near_duplicates import near_duplicates
from rag_assets.labels.health.unusable_labels import (
    DEFAULT_THRESHOLD,
    dangling_ids,
    judged_at_k,
    label_churn,
    queries_without_relevant,
    unmatched_filters,
    unreachable_evidence,
)
from rag_assets.pipeline.circular_models import circle_warnings
from rag_assets.pipeline.evaluations import Evaluation, read_current, table_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.search_steps_stage import uses_filters
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES, TableSchema
from rag_assets.sources.dataset import Read
from rag_assets.sources.problems import Problems, RowError
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY, QUESTIONS_KEY
from rag_assets.sources.tables import WITHOUT_RELEVANT
from rag_assets.store.artifacts import ArtifactKey


@dataclass(frozen=True)
class Validation:
    """What was found.

    Attributes:
        findings: table of :data:`rag_assets.labels.health.findings.FINDINGS`, errors first.
        rows: how many documents, queries and judgments could be read.
        skipped: what was not checked, each with its reason.
        notes: what the readers found odd and no finding tells, each after the name of its table.
    """

    findings: pa.Table
    rows: dict[str, int]
    skipped: tuple[str, ...]
    notes: tuple[str, ...] = ()

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
    broken: frozenset[str]
    documents_sound: bool
    notes: tuple[str, ...]


def validate(pipeline: Pipeline, *, judged_threshold: float = DEFAULT_THRESHOLD) -> Validation:
    """Run every check of :mod:`rag_assets.labels.health` on an experiment.

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
    if experiment.questions is not None and not sources.queries.num_rows:
        skipped.append("labels: a language model has not written the questions yet")
    elif pipeline.experiment.has_qrels:
        tables += _label_checks(sources, keeps_unknown=experiment.keeps_unknown)
        tables += _fact_checks(pipeline, sources)
        used = experiment.config.split or experiment.weight or experiment.statistics.cluster != NONE
        if sources.problems.num_rows and used:
            skipped.append("splits, weights and clusters: the files have errors")
        try:
            tables.append(_coverage(pipeline, sources))
        except (DataError, ModelUnavailable) as error:
            skipped.append(f"evidence that no chunk covers: {error}")
    else:
        unread = experiment.unread_labels
        skipped.append(f"labels: there are none yet{f'; {unread}' if unread else ''}")
    if sources.documents_sound:
        try:
            tables += _index_text_files(pipeline)
        except ModelUnavailable as error:
            skipped.append(f"files of index_texts: {error}")
    if experiment.answerers and not sources.problems.num_rows:
        answers, notes = answer_findings(pipeline)
        tables.append(answers)
        skipped += notes
    compared, not_compared = _evaluation_checks(pipeline, sources, evaluation, judged_threshold)
    tables += compared
    skipped += not_compared
    beside = [f"{DOCUMENTS_KEY.asset}: {line}" for line in experiment.unread_files]
    remarks = (*beside, *sources.notes, *circle_warnings(experiment))
    parts = {"documents": sources.documents, "queries": sources.queries, "qrels": sources.qrels}
    counts = {name: table.num_rows for name, table in parts.items()}
    return Validation(_ordered(tables, sources.broken), counts, tuple(skipped), remarks)


def _evaluation_checks(
    pipeline: Pipeline,
    sources: _Sources,
    evaluation: Evaluation | None,
    judged_threshold: float,
) -> tuple[list[pa.Table], list[str]]:
    """Return what the last evaluation tells, and what it cannot."""
    if evaluation is None:
        return [], ["judged@k, label churn and drift: there is no evaluation yet"]
    skipped = []
    if not evaluation.entries_of("metrics_summary"):
        skipped.append("judged@k: the last evaluation had no labels")
    if not evaluation.entries_of(QRELS_KEY.asset):
        skipped.append("label churn: the last evaluation had no labels")
    drift, not_compared = drift_findings(pipeline, evaluation)
    judged = _judged(pipeline, evaluation, judged_threshold)
    churn = _churn(pipeline, evaluation, sources)
    return [judged, churn, drift], [*skipped, *not_compared]


def _read(pipeline: Pipeline) -> _Sources:
    dataset = pipeline.experiment.dataset
    problems = Problems(collect=True)
    documents = _part(pipeline, DOCUMENTS_KEY, DOCUMENTS, dataset.read_documents, problems)
    if pipeline.experiment.questions is not None:
        return _with_generated(pipeline, documents)
    queries = _part(pipeline, QUERIES_KEY, QUERIES, pipeline.experiment.read_queries, problems)
    parts = [documents, queries]
    for kind, part in (("document", documents), ("query", queries)):
        if not part.to_the_end:
            problems.record_incomplete(kind)
    if pipeline.experiment.has_qrels:
        read = partial(pipeline.experiment.read_qrels, documents.table, queries.table)
        # Broken documents or queries are not in the store, and labels are checked against both.
        in_store = not (documents.problems or queries.problems)
        parts.append(_part(pipeline, QRELS_KEY, QRELS, read, problems, in_store=in_store))
    errors = [error for part in parts for error in part.problems]
    queried = (error.query_id for error in errors if isinstance(error, RowError))
    return _Sources(
        documents.table,
        queries.table,
        parts[2].table if len(parts) > 2 else QRELS.empty(),
        reading_problems(errors),
        frozenset(query_id for query_id in queried if query_id is not None),
        not documents.problems,
        tuple(note for part in parts for note in part.notes),
    )


def _with_generated(pipeline: Pipeline, documents: _Part) -> _Sources:
    """Return queries and labels where a model wrote them already; nothing is asked."""
    tables = {QUERIES_KEY: QUERIES.empty(), QRELS_KEY: QRELS.empty()}
    if _are_written(pipeline, documents):
        for key in tables:
            tables[key] = pipeline.materialize(key.asset, [key])[0].artifact.table()
    problems = reading_problems(documents.problems)
    return _Sources(
        documents.table,
        tables[QUERIES_KEY],
        tables[QRELS_KEY],
        problems,
        frozenset(),
        not documents.problems,
        tuple(documents.notes),
    )


def _are_written(pipeline: Pipeline, documents: _Part) -> bool:
    questions = pipeline.experiment.questions
    if questions is None or documents.problems:
        return False
    key = chunks_key(str(questions.chunking))
    pipeline.materialize(key.asset, [key])
    return pipeline.current(QUESTIONS_KEY) is not None


class _Part(NamedTuple):
    """One table: its sound rows, what is wrong with others, what is odd, and if all was read."""

    table: pa.Table
    problems: list[DataError]
    notes: list[str]
    to_the_end: bool = True


def _part(
    pipeline: Pipeline,
    key: ArtifactKey,
    schema: TableSchema,
    read: Callable[[Problems], Read],
    problems: Problems,
    *,
    in_store: bool = True,
) -> _Part:
    """Return a table from the store, or all rows that can be read and what is wrong with others."""
    first: list[DataError] = []
    if in_store:
        try:
            artifact = pipeline.materialize(key.asset, [key])[0].artifact
            return _Part(
                artifact.table(), first, _named_notes(key, artifact.manifest.facts["notes"])
            )
        except DataError as error:
            first = [error]
    content: Read | None = None
    part = problems.next_part()
    with part:
        content = read(part)
    errors = part.collected or first
    if content is None:
        return _Part(schema.empty(), errors, [], to_the_end=False)
    return _Part(content.table, errors, _named_notes(key, content.notes))


def _named_notes(key: ArtifactKey, notes: Iterable[str]) -> list[str]:
    """Name the table of each note; queries without a relevant document are findings."""
    return [f"{key.asset}: {note}" for note in notes if WITHOUT_RELEVANT not in note]


def _label_checks(sources: _Sources, *, keeps_unknown: bool) -> Iterable[pa.Table]:
    tables = (sources.qrels, sources.documents, sources.queries)
    yield dangling_ids(*tables, keeps_unknown=keeps_unknown)
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
    # Where no document is, no chunk can be: that is counted in a note.
    corpus = sources.documents["document_id"].combine_chunks()
    qrels = sources.qrels.filter(pc.is_in(sources.qrels["document_id"], value_set=corpus))
    judged = {}
    for name in pipeline.experiment.chunkings:
        key = chunks_key(name)
        chunks = pipeline.materialize(key.asset, [key])[0].artifact.table()
        judged[name] = relevant_units(qrels, chunks, pipeline.experiment.judge)
    return unreachable_evidence(judged, qrels)


def _index_text_files(pipeline: Pipeline) -> list[pa.Table]:
    """Return what is wrong with the files of texts by which chunks are found."""
    tables = []
    for name, config in pipeline.experiment.chunkings.items():
        files = {one.file: one for one in config.index_texts or () if one.file is not None}
        if not files:
            continue
        key = chunks_key(name)
        chunks = pipeline.materialize(key.asset, [key])[0].artifact.table()
        for file, option in files.items():
            try:
                texts_from_file(option, file, chunks)
            except DataError as error:
                tables.append(reading_problems([error]))
    return tables


def _last_evaluation(pipeline: Pipeline) -> Evaluation | None:
    try:
        return read_current(pipeline.root)
    except NotEvaluated:
        return None


def _judged(pipeline: Pipeline, evaluation: Evaluation, threshold: float) -> pa.Table:
    root = pipeline.root
    summaries = {
        entry.partition["retriever"]: table_of(root, evaluation, entry)
        for entry in evaluation.entries_of("metrics_summary")
    }
    return judged_at_k(summaries, threshold)


def _churn(pipeline: Pipeline, evaluation: Evaluation, sources: _Sources) -> pa.Table:
    """Follow the labels of the last evaluation, those of queries that are still asked."""
    parts = {
        asset: table_of(pipeline.root, evaluation, entry)
        for asset in ("documents", "qrels")
        for entry in evaluation.entries_of(asset)
    }
    if len(parts) < 2:
        return FINDINGS.empty()
    asked = set(sources.queries.column("query_id").to_pylist())
    churn = label_churn(parts["qrels"], parts["documents"], sources.documents)
    findings = [finding for finding in rows(churn.findings) if finding.query_id in asked]
    since = f"since evaluation {evaluation.evaluation_id}"
    return findings_table(f._replace(message=f"{since}: {f.message}") for f in findings)


def _ordered(tables: Iterable[pa.Table], broken: Collection[str]) -> pa.Table:
    """Unite findings, errors first; drop what only follows from a judgment that was not read."""
    findings: list[Finding] = []
    for table in tables:
        findings += [
            f
            for f in rows(table)
            if f.severity == ERROR or f.query_id not in broken or f.check != "no_relevant_document"
        ]
    findings.sort(key=lambda finding: finding.severity != ERROR)
    return findings_table(findings)
