"""The lexical branch: ``term_counts``, ``lexical_index``, ``lexical_queries``, ``lexical_runs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.stage import index_inputs, indexed_fields, indexed_rows
from rag_assets.code_versions.closure import Root
from rag_assets.compute.compute import Compute
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import FolderProduct, Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import StoreError
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.stage import query_set_key
from rag_assets.retrieval.array_folder import ArrayFolder
from rag_assets.retrieval.base import LexicalRetriever
from rag_assets.retrieval.base_runs_stage import UNITS_FILE, BaseRuns, IndexStage, save_units
from rag_assets.retrieval.lexical.analyzers import analyzer_code, analyzer_versions
from rag_assets.retrieval.lexical.tokens import BLOCKS_FILE, AnalysedTexts
from rag_assets.retrieval.lexical.words import AnalysedRetriever
from rag_assets.retrieval.runs_stage import FamilyStage
from rag_assets.schemas import QUERY_VARIANTS
from rag_assets.store.artifacts import WITHOUT_CARRY_OVER, Artifact, ArtifactKey
from rag_assets.store.canonical import rows_at
from rag_assets.store.large_tables import Ids

FAMILY = "lexical"


def term_counts_key(experiment: Experiment, retriever: str) -> ArtifactKey | None:
    """Return the analysed texts that a retriever's index is made of; None: it has none."""
    config = experiment.retrievers[retriever]
    if not isinstance(config, AnalysedRetriever):
        return None
    chunking = experiment.chunking_of(retriever)
    return ArtifactKey.of("term_counts", analysis=f"{chunking}:{config.analyzer}")


class TermCounts(Stage):
    """How often each word occurs in each chunk, under one analyzer."""

    name = "term_counts"
    dimensions: ClassVar[tuple[str, ...]] = ("analysis",)
    row = "How often each word occurs in each chunk under one analyzer, as plain files."
    group = "search"
    kinds: ClassVar[frozenset[str]] = frozenset({"numpy"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return list(_analyses(experiment))

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        _, analyzer = _analyses(experiment)[key]
        return analyzer_code(analyzer)

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunking, _ = _analyses(experiment)[key]
        return index_inputs(experiment, chunking)

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        chunking, analyzer = _analyses(context.experiment)[key]
        return {"analyzer": analyzer, "indexed": indexed_fields(context.experiment, chunking)}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        _, analyzer = _analyses(context.experiment)[key]
        return analyzer_versions(analyzer)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> FolderProduct:
        chunking, analyzer = _analyses(context.experiment)[key]
        alike = next(self.similar_artifacts(context, key), None)
        rows, texts_of = indexed_rows(context, chunking)
        compute = context.compute.for_rows(rows.num_rows)
        count = partial(_count, analyzer, rows, texts_of, alike, compute)
        return FolderProduct(count, carry_over_file=BLOCKS_FILE)


def _count(
    analyzer: str,
    chunks: pa.Table,
    texts_of: Callable[[pa.Table], pa.ChunkedArray],
    alike: Artifact | None,
    compute: Compute,
    folder: Path,
) -> tuple[int, Mapping[str, Any]]:
    earlier = None
    if alike is not None:
        with suppress(StoreError):  # damaged: everything is analysed
            earlier = AnalysedTexts.load(alike.folder)
    order = pc.sort_indices(chunks["chunk_id"]).to_numpy().astype(np.int64)
    ids = Ids(rows_at(chunks.select(["chunk_id"]), order)["chunk_id"])

    def texts_in(rows: slice) -> pa.ChunkedArray:
        return texts_of(rows_at(chunks.select(["title", "heading_path", "text"]), order[rows]))

    analysed = AnalysedTexts.of_ordered(ids, texts_in, analyzer, earlier, compute, folder)
    analysed.save(folder)
    save_units(folder, chunks)
    return chunks.num_rows, analysed.facts


def _analyses(experiment: Experiment) -> dict[ArtifactKey, tuple[str, str]]:
    """Return the partitions of ``term_counts``, each with its chunking and analyzer."""
    analyses = {}
    for name in experiment.of_family(FAMILY):
        config, key = experiment.retrievers[name], term_counts_key(experiment, name)
        if key is not None and isinstance(config, AnalysedRetriever):
            analyses[key] = (experiment.chunking_of(name), config.analyzer)
    return analyses


class LexicalIndexes(IndexStage):
    """The inverted index of a lexical retriever."""

    name = "lexical_index"
    family = FAMILY
    kinds_by: ClassVar[tuple[str, ...]] = ("search_kind",)
    row = "The inverted index of one lexical retriever over its chunks, as plain files."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        counted = term_counts_key(experiment, key["retriever"])
        if counted is not None:
            return [Input("term_counts", counted, WITHOUT_CARRY_OVER)]
        return super().inputs(experiment, key)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> FolderProduct:
        config = LexicalRetriever.lookup(key["retriever"], context.experiment.retrievers)
        counted = term_counts_key(context.experiment, key["retriever"])
        if counted is not None and isinstance(config, AnalysedRetriever):
            return FolderProduct(partial(_index_counts, config, context.artifact(counted)))
        chunking = context.experiment.chunking_of(key["retriever"])
        rows, texts_of = indexed_rows(context, chunking)
        return FolderProduct(partial(_index, config, rows, texts_of(rows).to_pylist()))


def _index_counts(
    config: AnalysedRetriever, counted: Artifact, folder: Path
) -> tuple[int, Mapping[str, Any]]:
    facts = config.build_of(AnalysedTexts.load(counted.folder), folder)
    ArrayFolder(folder).take_over(UNITS_FILE, ArrayFolder(counted.folder), UNITS_FILE)
    return counted.manifest.rows, facts


def _index(
    config: LexicalRetriever, chunks: pa.Table, texts: list[str], folder: Path
) -> tuple[int, Mapping[str, Any]]:
    facts = config.build(chunks, texts, folder)
    save_units(folder, chunks)
    return chunks.num_rows, facts


class LexicalQueries(FamilyStage):
    """The queries as a lexical retriever searches for them."""

    name = "lexical_queries"
    family = FAMILY
    schema = QUERY_VARIANTS
    row = "One variant of one query, as this retriever searches for it."
    group = "search"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("query_set", query_set_key(experiment.query_set_of(key["retriever"])))]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        query_set = context.experiment.query_set_of(key["retriever"])
        artifact = context.artifact(query_set_key(query_set))
        return TableProduct(artifact.table(), failures=artifact.manifest.failures)


class LexicalRuns(BaseRuns):
    """Runs of a lexical retriever (BM25 or TF-IDF): the top_k results of each query."""

    name = "lexical_runs"
    family = FAMILY

    def search_inputs(self, queries: pa.Table) -> list[str]:
        texts: list[str] = queries.column("text").to_pylist()
        return texts
