"""All checks of one experiment: its files, its chunkings and its last evaluation.

What is sound is brought into the store on the way, as an evaluation would, so that a later one
need not read and cut it again. What is not sound is read to the end, and every problem told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.generators import FileGenerator
from rag_assets.answers.metrics_stage import check_golds
from rag_assets.answers.prediction_files import read_predictions
from rag_assets.checks.drift import drift_findings
from rag_assets.chunking.index_texts import texts_from_file
from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError, ModelUnavailable, NotEvaluated
from rag_assets.evaluation.query_facts import NONE
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.experiment.hosts import circle_warnings
from rag_assets.labels.duplicates import (
    duplicate_documents,
    duplicate_queries,
    near_duplicate_documents,
    near_duplicates,
    unjudged_twins,
)
from rag_assets.labels.findings import (
    DEFAULT_THRESHOLD,
    ERROR,
    WARNING,
    Finding,
    dangling_ids,
    findings_table,
    judged_at_k,
    queries_without_relevant,
    reading_problems,
    rows,
    unmatched_filters,
    unreachable_evidence,
)
from rag_assets.pipeline.evaluations import read_current, table_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.search_steps_stage import filter_set
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES
from rag_assets.sources.dataset import Problems, Read, RowError
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY, QUESTIONS_KEY
from rag_assets.sources.tables import WITHOUT_RELEVANT
from rag_assets.store.artifacts import ArtifactKey


@dataclass(frozen=True)
class Validation:
    """What was found.

    Attributes:
        findings: table of :data:`rag_assets.labels.findings.FINDINGS`, errors first.
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


def validate(pipeline: Pipeline, *, judged_threshold: float = DEFAULT_THRESHOLD) -> Validation:
    """Run every check of labels on an experiment.

    Args:
        pipeline: the experiment and its store.
        judged_threshold: share of judged units below which a cell of the last evaluation is told.

    Raises:
        StoreError: the store cannot be written, or the last evaluation cannot be read.
    """
    checked = _Checked(pipeline)
    checked.read()
    checked.check_duplicates()
    checked.check_labels()
    checked.check_files()
    checked.check_evaluation(judged_threshold)
    beside = [f"{DOCUMENTS_KEY.asset}: {line}" for line in pipeline.experiment.unread_files]
    return Validation(
        checked.findings(),
        {name: table.num_rows for name, table in checked.sources.items()},
        tuple(checked.skipped),
        (*beside, *checked.notes, *circle_warnings(pipeline.experiment)),
    )


@dataclass
class _Checked:
    """What was read and found so far."""

    pipeline: Pipeline
    sources: dict[str, pa.Table] = field(
        default_factory=lambda: {
            "documents": DOCUMENTS.empty(),
            "queries": QUERIES.empty(),
            "qrels": QRELS.empty(),
        }
    )
    problems: dict[str, list[DataError]] = field(default_factory=dict)
    """What is wrong with the rows of each table."""
    tables: list[pa.Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[DataError]:
        """Everything that could not be read."""
        return [error for errors in self.problems.values() for error in errors]

    @contextmanager
    def skipping(self, what: str) -> Iterator[None]:
        """Say that ``what`` could not be checked, and why."""
        try:
            yield
        except (ModelUnavailable, DataError) as error:
            self.skipped.append(f"{what}: {error}")

    def materialized(self, key: ArtifactKey) -> pa.Table:
        """Return a partition, brought up to date."""
        return self.pipeline.materialize(key.asset, [key])[0].artifact.table()

    def read(self) -> None:
        """Read documents, queries and qrels, and collect what is wrong with them.

        Labels are read where documents and queries are sound: others would only follow from these.
        """
        experiment = self.pipeline.experiment
        self._read(DOCUMENTS_KEY, experiment.dataset.read_documents)
        if experiment.questions is not None:
            if not self.errors and self._are_written(str(experiment.questions.chunking)):
                for key in (QUERIES_KEY, QRELS_KEY):
                    self.sources[key.asset] = self.materialized(key)
        else:
            self._read(QUERIES_KEY, experiment.read_queries)
            if experiment.has_qrels and not self.errors:
                documents, queries = self.sources["documents"], self.sources["queries"]
                self._read(QRELS_KEY, partial(experiment.read_qrels, documents, queries))
        self.tables.append(reading_problems(self.errors))

    def _are_written(self, chunking: str) -> bool:
        """Return whether a model wrote the questions already; nothing is asked."""
        self.materialized(chunks_key(chunking))
        return self.pipeline.current(QUESTIONS_KEY) is not None

    def _read(self, key: ArtifactKey, read: Callable[[Problems], Read]) -> None:
        """Take a table from the store, or all rows that can be read and what is wrong with others.

        Queries without a relevant document are findings, no notes.
        """
        notes: list[str] = []
        self.problems[key.asset] = []
        try:
            artifact = self.pipeline.materialize(key.asset, [key])[0].artifact
            self.sources[key.asset], notes = artifact.table(), artifact.manifest.facts["notes"]
        except DataError as error:
            problems = Problems(collect=True)
            with problems:
                self.sources[key.asset], notes = read(problems)
            self.problems[key.asset] = problems.collected or [error]
        self.notes += [f"{key.asset}: {note}" for note in notes if WITHOUT_RELEVANT not in note]

    def check_duplicates(self) -> None:
        """Look for queries and documents that are alike, and for filters that match nothing."""
        documents, queries, qrels = self.sources.values()
        pairs = near_duplicates(documents.column("text"))
        experiment = self.pipeline.experiment
        used = any(filter_set(experiment, n) is not None for n in experiment.retrievers)
        self.tables += [
            duplicate_queries(queries, qrels),
            duplicate_documents(documents),
            near_duplicate_documents(documents, pairs),
            unjudged_twins(qrels, documents, pairs),
            unmatched_filters(queries, documents, used=used),
        ]

    def check_labels(self) -> None:
        """Check that judgments can be used, and what splits, weights and clusters need."""
        experiment = self.pipeline.experiment
        documents, queries, qrels = self.sources.values()
        if experiment.questions is not None and not queries.num_rows:
            self.skipped.append("labels: a language model has not written the questions yet")
            return
        if not experiment.has_qrels:
            unread = experiment.unread_labels
            self.skipped.append(f"labels: there are none yet{f'; {unread}' if unread else ''}")
            return
        if self.problems["documents"] or self.problems.get("queries"):
            self.skipped.append("labels: the documents or the queries have errors")
            return
        keeps = experiment.keeps_unknown
        self.tables.append(dangling_ids(qrels, documents, queries, keeps_unknown=keeps))
        self.tables.append(queries_without_relevant(qrels, queries))
        if not self.errors:
            try:
                self.materialized(QUERY_FACTS_KEY)
            except DataError as error:
                finding = Finding(ERROR, QUERY_FACTS_KEY.asset, str(error))
                self.tables.append(findings_table([finding]))
        elif experiment.config.split or experiment.weight or experiment.statistics.cluster != NONE:
            self.skipped.append("splits, weights and clusters: the files have errors")
        with self.skipping("evidence that no chunk covers"):
            # Where no document is, no chunk can be: that is counted in a note.
            corpus = documents["document_id"].combine_chunks()
            judged = qrels.filter(pc.is_in(qrels["document_id"], value_set=corpus))
            units = {
                name: relevant_units(judged, self.materialized(chunks_key(name)), experiment.judge)
                for name in experiment.chunkings
            }
            self.tables.append(unreachable_evidence(units, judged))

    def check_files(self) -> None:
        """Check files of index texts, and answerers with their files."""
        experiment = self.pipeline.experiment
        if not self.problems["documents"]:
            with self.skipping("files of index_texts"):
                for name, config in experiment.chunkings.items():
                    options = {text.file: text for text in config.index_texts or () if text.file}
                    for file, option in options.items():
                        chunks = self.materialized(chunks_key(name))
                        try:
                            texts_from_file(option, file, chunks)
                        except DataError as error:
                            self.tables.append(reading_problems([error]))
        if experiment.answerers and not self.errors:
            self.tables.append(answer_findings(self.pipeline))

    def check_evaluation(self, judged_threshold: float) -> None:
        """Look at the judged shares of the last evaluation, and compare it with the anchor."""
        root = self.pipeline.root
        try:
            evaluation = read_current(root)
        except NotEvaluated:
            self.skipped.append("judged@k and drift: there is no evaluation yet")
            return
        summaries = {
            entry.partition["retriever"]: table_of(root, evaluation, entry)
            for entry in evaluation.entries_of("metrics_summary")
        }
        self.tables.append(judged_at_k(summaries, judged_threshold))
        if not summaries:
            self.skipped.append("judged@k: the last evaluation had no labels")
        drift, not_compared = drift_findings(self.pipeline, evaluation)
        self.tables.append(drift)
        self.skipped += not_compared

    def findings(self) -> pa.Table:
        """Return all findings, errors first, without what only follows from a refused judgment."""
        broken = {error.query_id for error in self.errors if isinstance(error, RowError)} - {None}
        findings = [
            finding
            for table in self.tables
            for finding in rows(table)
            if finding.severity == ERROR
            or finding.query_id not in broken
            or finding.check != "no_relevant_document"
        ]
        findings.sort(key=lambda finding: finding.severity != ERROR)
        return findings_table(findings)


ANSWERS, MISSING = "answers", "missing_prediction"


def answer_findings(pipeline: Pipeline) -> pa.Table:
    """Return findings about answerers."""
    experiment = pipeline.experiment
    findings = list[Finding]()
    try:
        facts = pipeline.materialize(QUERY_FACTS_KEY.asset, [QUERY_FACTS_KEY])[0].artifact.table()
        check_golds(experiment, facts)
    except (ConfigError, DataError) as error:
        findings.append(Finding(ERROR, ANSWERS, str(error)))
    used = {options.generator for options in experiment.answerers.values()}
    ids = pipeline.artifact(QUERIES_KEY).table()["query_id"].to_pylist()
    for name, generator in experiment.generators.items():
        if name not in used or not isinstance(generator, FileGenerator):
            continue
        try:
            missing = read_predictions(generator.path, ids).missing
        except DataError as error:
            findings.append(Finding(ERROR, ANSWERS, str(error)))
            continue
        message = f"{name} has no prediction for it; the answer counts as failed"
        file = str(generator.path)
        findings += [
            Finding(WARNING, MISSING, message, query_id, file=file) for query_id in missing
        ]
    return findings_table(findings)
