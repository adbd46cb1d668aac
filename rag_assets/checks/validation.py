"""All checks of one experiment: its files, its chunkings and its last evaluation.

What is sound is brought into the store on the way, as an evaluation would, so that a later one
need not read and cut it again. What is not sound is read to the end, and every problem told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.generators import FileGenerator
from rag_assets.answers.predictions import NO_PREDICTION, read_predictions
from rag_assets.answers.stage import check_golds, golds_with_nuggets
from rag_assets.checks.drift import drift_findings
from rag_assets.chunking.index_texts import texts_from_file
from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError, ModelUnavailable, NotEvaluated
from rag_assets.evaluation.query_facts import NONE
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import judge_and_question_warnings
from rag_assets.labels.duplicates import (
    duplicate_documents,
    duplicate_queries,
    near_duplicate_documents,
    near_duplicates,
    unjudged_twins,
)
from rag_assets.labels.findings import (
    ERROR,
    FINDINGS,
    TEXT_CHANGED,
    WARNING,
    Finding,
    dangling_ids,
    queries_without_relevant,
    reading_problems,
    unmatched_filters,
    unreachable_evidence,
)
from rag_assets.labels.logs import PERSON, left_out, read_judgments, read_marks, source_counts
from rag_assets.labels.sampling.label_sample import lost_notes, valid_judgments
from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.query_set import ComputedQuerySet
from rag_assets.query_sets.stage import query_set_key
from rag_assets.retrieval.external.base import ImportedRetriever
from rag_assets.retrieval.external.stage import rankings_key
from rag_assets.retrieval.search_steps_stage import filter_set
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES
from rag_assets.sources.dataset import Problems, Read, RowError
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY, QUESTIONS_KEY
from rag_assets.sources.tables import WITHOUT_RELEVANT
from rag_assets.store.artifacts import ArtifactKey


class Validation:
    """What was found in documents, queries and labels; all is checked when one is made.

    Attributes:
        findings: table of :data:`rag_assets.labels.findings.FINDINGS`, errors first.
        rows: how many documents, queries and judgments could be read.
        skipped: what was not checked, each with its reason.
        notes: what the readers found odd and no finding tells, each after the name of its table.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        """Check an experiment.

        Raises:
            StoreError: the store cannot be written, or the last evaluation cannot be read.
        """
        self.pipeline = pipeline
        self._rows: list[Finding] = []
        self._sources = {schema.name: schema.empty() for schema in (DOCUMENTS, QUERIES, QRELS)}
        self._problems: dict[str, list[DataError]] = {}
        self.skipped: list[str] = []
        unread = pipeline.experiment.unread_files
        self.notes = [f"{DOCUMENTS_KEY.asset}: {line}" for line in unread]
        self._read_sources()
        self._check_duplicates()
        self._check_labels()
        self._check_files()
        self._check_drift()
        self.notes += judge_and_question_warnings(pipeline.experiment)
        self.rows = {name: table.num_rows for name, table in self._sources.items()}
        self.findings = self._sorted()

    @property
    def n_errors(self) -> int:
        """How many findings are errors."""
        return sum(severity == ERROR for severity in self.findings["severity"].to_pylist())

    @property
    def _errors(self) -> list[DataError]:
        """Everything that could not be read."""
        return [error for errors in self._problems.values() for error in errors]

    @contextmanager
    def _skipping(self, what: str) -> Iterator[None]:
        """Say that ``what`` could not be checked, and why."""
        try:
            yield
        except (ModelUnavailable, DataError) as error:
            self.skipped.append(f"{what}: {error}")

    def _materialized(self, key: ArtifactKey) -> pa.Table:
        """Return a partition, brought up to date."""
        return self.pipeline.materialize(key.asset, [key])[0].artifact.table()

    def _read_sources(self) -> None:
        """Read documents, queries and qrels, and collect what is wrong with them.

        Labels are read where documents and queries are sound: others would only follow from these.
        """
        experiment = self.pipeline.experiment
        self._read(DOCUMENTS_KEY, experiment.dataset.read_documents)
        if experiment.questions is not None:
            if not self._errors and self._are_written(str(experiment.questions.chunking)):
                for key in (QUERIES_KEY, QRELS_KEY):
                    self._sources[key.asset] = self._materialized(key)
        else:
            self._read(QUERIES_KEY, experiment.read_queries)
            if experiment.has_qrels and not self._errors:
                documents, queries = self._sources["documents"], self._sources["queries"]
                self._read(QRELS_KEY, partial(experiment.read_qrels, documents, queries))
        self._rows += reading_problems(self._errors)

    def _are_written(self, chunking: str) -> bool:
        """Return whether a model wrote the questions already; nothing is asked."""
        self._materialized(chunks_key(chunking))
        return self.pipeline.current(QUESTIONS_KEY) is not None

    def _read(self, key: ArtifactKey, read: Callable[[Problems], Read]) -> None:
        """Take a table from the store, or all rows that can be read and what is wrong with others.

        Queries without a relevant document are findings, no notes.
        """
        notes: list[str] = []
        self._problems[key.asset] = []
        try:
            artifact = self.pipeline.materialize(key.asset, [key])[0].artifact
            self._sources[key.asset], notes = artifact.table(), artifact.manifest.facts["notes"]
        except DataError as error:
            problems = Problems(collect=True)
            with problems:
                self._sources[key.asset], notes = read(problems)
            self._problems[key.asset] = problems.collected or [error]
        self.notes += [f"{key.asset}: {note}" for note in notes if WITHOUT_RELEVANT not in note]

    def _check_duplicates(self) -> None:
        """Look for queries and documents that are alike, and for filters that match nothing."""
        documents, queries, qrels = self._sources.values()
        pairs = near_duplicates(documents.column("text"))
        experiment = self.pipeline.experiment
        used = any(filter_set(experiment, n) is not None for n in experiment.retrievers)
        self._rows += [
            *duplicate_queries(queries, qrels),
            *duplicate_documents(documents),
            *near_duplicate_documents(documents, pairs),
            *unjudged_twins(qrels, documents, pairs),
            *unmatched_filters(queries, documents, used=used),
        ]

    def _check_labels(self) -> None:
        """Check that judgments can be used, and what splits, weights and clusters need."""
        experiment = self.pipeline.experiment
        documents, queries, qrels = self._sources.values()
        if experiment.questions is not None and not queries.num_rows:
            self.skipped.append("labels: the questions are not generated yet")
            return
        log = experiment.label_sample_files.get("log")
        if log and not self._problems["documents"]:
            _, lost = valid_judgments(log, documents)
            self._rows += [Finding(WARNING, TEXT_CHANGED, line) for line in lost_notes(lost, log)]
        if not experiment.has_qrels:
            out = left_out(read_marks(experiment.question_marks_file))
            n = source_counts(read_judgments(log), out).get(PERSON, 0) if log else 0
            some = f"there are grades of a sample ({n}), not yet of all of it"
            self.skipped.append(f"labels: {some if n else 'there are none yet'}")
            return
        if self._problems["documents"] or self._problems.get("queries"):
            self.skipped.append("labels: the documents or the queries have errors")
            return
        keeps = experiment.keeps_unknown
        self._rows += dangling_ids(qrels, documents, queries, keeps_unknown=keeps)
        self._rows += queries_without_relevant(qrels, queries)
        if not self._errors:
            try:
                self._materialized(QUERY_FACTS_KEY)
            except DataError as error:
                finding = Finding(ERROR, QUERY_FACTS_KEY.asset, str(error))
                self._rows.append(finding)
        elif experiment.config.split or experiment.weight or experiment.statistics.cluster != NONE:
            self.skipped.append("splits, weights and clusters: the files have errors")
        with self._skipping("evidence that no chunk covers"):
            # Where no document is, no chunk can be: that is counted in a note.
            corpus = documents["document_id"].combine_chunks()
            judged = qrels.filter(pc.is_in(qrels["document_id"], value_set=corpus))
            units = {
                name: relevant_units(judged, self._materialized(chunks_key(name)), experiment.judge)
                for name in experiment.chunkings
            }
            self._rows += unreachable_evidence(units, judged)

    def _check_files(self) -> None:
        """Check files beside the data, and answerers with theirs; no model or server is needed."""
        experiment = self.pipeline.experiment
        if not self._problems["documents"]:
            with self._skipping("files of index_texts"):
                for name, config in experiment.chunkings.items():
                    options = {text.file: text for text in config.index_texts or () if text.file}
                    for file, option in options.items():
                        chunks = self._materialized(chunks_key(name))
                        try:
                            texts_from_file(option, file, chunks)
                        except DataError as error:
                            self._rows += reading_problems([error])
        if self._errors:
            return
        for key in _made_of_files(experiment):
            try:
                self._materialized(key)
            except DataError as error:
                self._rows += reading_problems([error])
        if experiment.answerers:
            self._rows += answer_findings(self.pipeline)

    def _check_drift(self) -> None:
        """Compare the last evaluation with the anchor."""
        try:
            evaluation = read_current(self.pipeline.root)
        except NotEvaluated:
            self.skipped.append("drift: there is no evaluation yet")
            return
        drift, not_compared = drift_findings(self.pipeline, evaluation)
        self._rows += drift
        self.skipped += not_compared

    def _sorted(self) -> pa.Table:
        """Return all findings, errors first, without what only follows from a refused judgment."""
        broken = {error.query_id for error in self._errors if isinstance(error, RowError)} - {None}
        findings = [
            finding
            for finding in self._rows
            if finding.severity == ERROR
            or finding.query_id not in broken
            or finding.check != "no_relevant_document"
        ]
        findings.sort(key=lambda finding: finding.severity != ERROR)
        return FINDINGS.from_rows([finding._asdict() for finding in findings])


OF_FILES = ("answer_labels", "online_log")
"""Assets that are nothing but a file beside the data."""


def _made_of_files(experiment: Experiment) -> list[ArtifactKey]:
    """Return the partitions that are read from files beside the data."""
    keys = [key for name in OF_FILES for key in STAGES[name].keys(experiment)]
    sets, retrievers = experiment.query_sets.items(), experiment.retrievers.items()
    keys += [query_set_key(name) for name, of in sets if isinstance(of, ComputedQuerySet)]
    runs = [name for name, of in retrievers if isinstance(of, ImportedRetriever)]
    return [*keys, *map(rankings_key, runs)]


ANSWERS, MISSING = "answers", "missing_prediction"


def answer_findings(pipeline: Pipeline) -> list[Finding]:
    """Return findings about answerers."""
    experiment = pipeline.experiment
    findings = list[Finding]()
    try:
        facts = pipeline.materialize(QUERY_FACTS_KEY.asset, [QUERY_FACTS_KEY])[0].artifact.table()
        check_golds(experiment, facts)
        golds_with_nuggets(pipeline)
    except (ConfigError, DataError) as error:
        findings.append(Finding(ERROR, ANSWERS, str(error)))
    used = {options.generator for options in experiment.answerers.values()}
    ids = pipeline.artifact(QUERIES_KEY).table()["query_id"].to_pylist()
    for name, generator in experiment.generators.items():
        if name not in used or not isinstance(generator, FileGenerator):
            continue
        try:
            answers, _ = read_predictions(generator.path, ids)
        except DataError as error:
            findings.append(Finding(ERROR, ANSWERS, str(error)))
            continue
        message = f"{name} has no prediction for it; the answer counts as failed"
        file = str(generator.path)
        findings += [
            Finding(WARNING, MISSING, message, query_id, file=file)
            for query_id, row in answers.items()
            if row.get("error") == NO_PREDICTION
        ]
    return findings
