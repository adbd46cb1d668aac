"""The three tables that are read from the experiment's files: documents, queries, qrels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.logs import acting, marked_queries
from rag_assets.labels.questions import qrels_of, queries_of
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES
from rag_assets.sources.dataset import Read
from rag_assets.sources.document_files import engine_versions, reader_code
from rag_assets.sources.labelled_folder import LabelledFolder
from rag_assets.sources.samples import SampleDataset
from rag_assets.sources.tables import (
    KEEP,
    UNKNOWN_DOCUMENTS,
    DocumentRows,
    add_documents,
    are_distinct,
)
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.blocks import BlockedTable, KnownBlocks

DOCUMENTS_KEY = ArtifactKey.of("documents")
QUERIES_KEY = ArtifactKey.of("queries")
QRELS_KEY = ArtifactKey.of("qrels")
QUESTIONS_KEY = ArtifactKey.of("generated_questions")


class _SourceStage(Stage):
    """Read from files; the fingerprint holds the digest of their names and contents."""

    made_for = "dataset"

    group: ClassVar[str] = "data"

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return [root_of(type(experiment.dataset)), *reader_code(self.read_by_type(experiment))]

    def read_by_type(self, experiment: Experiment) -> list[Path]:
        """Return the files whose type says by what they are read."""
        return []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return []

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        dataset = context.experiment.dataset
        origin: dict[str, Any] = {}
        if isinstance(dataset, LabelledFolder) and dataset.columns.given:
            origin = {"columns": dict(dataset.columns.given)}
        if isinstance(dataset, SampleDataset) and dataset.columns:
            origin = {"columns": dict(dataset.columns)}
        return {"format": dataset.format, "files": context.source_digests[self.name], **origin}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        table, notes = self.read(context)
        context.check_source(self.name)
        return TableProduct(table, {"notes": notes})

    @abstractmethod
    def read(self, context: StageContext) -> Read:
        """Read the table."""


class Documents(_SourceStage):
    """The corpus: every document that can be searched."""

    name = "documents"
    schema = DOCUMENTS
    row = "One source document: its id, title, text and other fields."
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "text": ("document_id", "title", "text"),
        "ids": ("document_id",),
        "metadata": ("metadata",),
    }

    def read_by_type(self, experiment: Experiment) -> list[Path]:
        with suppress(DataError):  # it is said when they are read
            return experiment.dataset.document_files()
        return []

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return engine_versions(context.experiment.dataset.document_files())

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        with suppress(DataError):  # the reader of whole files says at which line
            product = self._by_block(context, key)
            if product is not None:
                return product
        return super().compute_one(context, key)

    def _by_block(self, context: StageContext, key: ArtifactKey) -> TableProduct | None:
        """Return the documents, of which those are parsed whose block changed.

        None: each has no line of its own, or an id occurs twice.
        """
        lines = context.experiment.dataset.document_lines()
        if lines is None:
            return None
        earlier = KnownBlocks(self.similar_artifacts(context, key))
        built = BlockedTable(earlier, context.store.root)
        add_documents(built, *lines)
        if not built.blocks or not are_distinct((table := built.table())["document_id"]):
            return None
        context.check_source(self.name)
        facts = {"notes": DocumentRows.notes_on(table)}
        return TableProduct(table, facts, blocks=built.blocks)

    def read(self, context: StageContext) -> Read:
        return context.experiment.dataset.read_documents()


class _LabelStage(_SourceStage):
    """Of the dataset, or of the questions that a language model wrote from chunks."""

    def own_code(self) -> list[Root]:
        return [*super().own_code(), f"{__name__}:_OF_QUESTIONS[]"]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        if experiment.questions is None:
            return super().named_code(experiment, key)
        return [f"{__name__}:_OF_QUESTIONS[{self.name}]"]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [] if experiment.questions is None else [Input("questions", QUESTIONS_KEY)]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {} if context.experiment.questions is not None else super().config(context, key)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        if context.experiment.questions is None:
            return super().compute_one(context, key)
        table, notes = _OF_QUESTIONS[self.name](context)
        return TableProduct(table, {"notes": notes})


def _generated_queries(context: StageContext) -> Read:
    read = Read(queries_of(context.artifact(QUESTIONS_KEY).table()), [])
    marks = context.experiment.question_marks()
    return marked_queries(read, marks, context.experiment.question_marks_file) if marks else read


def _generated_qrels(context: StageContext) -> Read:
    """Return the labels of the questions that people did not take out."""
    qrels = qrels_of(context.artifact(QUESTIONS_KEY).table())
    query_ids = context.artifact(QUERIES_KEY).table(["query_id"])["query_id"]
    return Read(qrels.filter(pc.is_in(qrels["query_id"], query_ids)), [])


_OF_QUESTIONS: Mapping[str, Callable[[StageContext], Read]] = {
    "queries": _generated_queries,
    "qrels": _generated_qrels,
}


class Queries(_LabelStage):
    """The questions that every retriever is asked."""

    name = "queries"
    schema = QUERIES
    row = "One query: its id, text and tags."
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "text": ("query_id", "text"),
        "ids": ("query_id",),
        "metadata": ("query_id", "metadata"),
        "facts": ("query_id", "tags", "metadata"),
    }

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        marks, sample = (
            context.experiment.question_marks(),
            context.experiment.config.dataset.sample,
        )
        drawn = {} if sample is None else {"sample": sample.model_dump()}
        return {**super().config(context, key), **acting(marks), **drawn}

    def read(self, context: StageContext) -> Read:
        return context.experiment.read_queries()


class Qrels(_LabelStage):
    """The labels: which document, or which span of it, answers which query."""

    name = "qrels"
    made_for = "judged_retrievers"
    schema = QRELS
    row = "One judgment: a document, or a span of it, that is evidence for a query, with a grade."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("documents", DOCUMENTS_KEY, "text"),
            Input("queries", QUERIES_KEY, "ids"),
            *super().inputs(experiment, key),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        keeps = experiment.keeps_unknown and experiment.questions is None
        return {**super().config(context, key), **({UNKNOWN_DOCUMENTS: KEEP} if keeps else {})}

    def read(self, context: StageContext) -> Read:
        documents = context.artifact(DOCUMENTS_KEY).table()
        queries = context.artifact(QUERIES_KEY).table()
        return context.experiment.read_qrels(documents, queries)
