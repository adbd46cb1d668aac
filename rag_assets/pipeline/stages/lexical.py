"""The lexical branch: ``lexical_index``, ``lexical_queries`` and ``lexical_runs``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rag_assets.evaluation.units import unit_ranking
from rag_assets.experiment.config import BM25Config
from rag_assets.experiment.experiment import QUERY_SET, Experiment
from rag_assets.lexical.index import LexicalIndex, build_index, engine_versions
from rag_assets.lexical.search import search
from rag_assets.pipeline.latency_sample import Search, values_by_query
from rag_assets.pipeline.stage import FolderProduct, Input, Stage, TableProduct
from rag_assets.pipeline.stages.chunks import chunks_key, indexed_fields, texts_to_index
from rag_assets.pipeline.stages.index_units import load_units, save_units
from rag_assets.pipeline.stages.query_sets import query_set_key
from rag_assets.pipeline.stages.runs import RunsStage
from rag_assets.schemas import QUERY_VARIANTS
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


class LexicalIndexes(Stage):
    """One partition a lexical retriever: a folder of plain files."""

    name = "lexical_index"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    row = "The inverted index of one lexical retriever over its chunks, as plain files."
    group = "indexes"
    kinds: ClassVar[frozenset[str]] = frozenset({"bm25"})
    code_version = "2"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.lexical",
        "rag_assets.chunking.spans",
        "rag_assets.pipeline.stages.index_units",
    )

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [_index_key(name) for name in experiment.of_family("lexical")]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunking = experiment.chunking_of(key["retriever"])
        return [Input("chunks", chunks_key(chunking), "indexed")]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        retriever = _config(pipeline.experiment, key["retriever"])
        chunking = pipeline.experiment.chunking_of(key["retriever"])
        return {
            **retriever.model_dump(mode="json", exclude={"chunking"}),
            "indexed": indexed_fields(pipeline.experiment, chunking),
        }

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        return _versions(pipeline.experiment, key["retriever"])

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, FolderProduct]]:
        for key in keys:
            chunking = pipeline.experiment.chunking_of(key["retriever"])
            chunks = pipeline.artifact(chunks_key(chunking)).table()
            texts = texts_to_index(pipeline.experiment, chunking, chunks)
            yield key, _index(_config(pipeline.experiment, key["retriever"]), chunks, texts)


def _index(config: BM25Config, chunks: pa.Table, texts: list[str]) -> FolderProduct:
    def write(folder: Path) -> tuple[int, Mapping[str, Any]]:
        facts = build_index(
            chunks.column("chunk_id").to_pylist(),
            texts,
            engine=config.engine,
            analyzer=config.analyzer,
            k1=config.k1,
            b=config.b,
            folder=folder,
        )
        save_units(folder, chunks)
        return chunks.num_rows, facts

    return FolderProduct(write)


class LexicalQueries(Stage):
    """One partition a lexical retriever: the query set that it searches for."""

    name = "lexical_queries"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = QUERY_VARIANTS
    row = "One variant of one query, as this retriever searches for it."
    group = "queries"
    code_version = "1"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [_queries_key(name) for name in experiment.of_family("lexical")]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("query_set", query_set_key(QUERY_SET))]

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        table = pipeline.artifact(query_set_key(QUERY_SET)).table()
        for key in keys:
            yield key, TableProduct(table)


class LexicalRuns(RunsStage):
    """One partition a lexical retriever and top_k, cut from the retriever's ranking."""

    name = "lexical_runs"
    family = "lexical"
    code_version = "2"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "bm25"})
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.lexical",
        "rag_assets.evaluation.units",
        "rag_assets.ordering",
        "rag_assets.pipeline.stages.runs",
        "rag_assets.pipeline.stages.index_units",
    )

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("index", _index_key(key["retriever"])),
            Input("queries", _queries_key(key["retriever"])),
        ]

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        return _versions(pipeline.experiment, key["retriever"])

    def rank(self, pipeline: Pipeline, retriever: str, top_k: int, depth: int) -> pa.Table:
        folder = pipeline.artifact(_index_key(retriever)).path
        index = LexicalIndex.load(folder)
        queries = pipeline.artifact(_queries_key(retriever)).table()
        texts = queries.column("text").to_pylist()
        with pipeline.progress(f"search {retriever}", len(texts)) as advance:
            return unit_ranking(
                queries.column("query_id").to_pylist(),
                load_units(folder, index.chunk_ids),
                lambda numbers, k: search(index, [texts[i] for i in numbers], k, advance),
                judge=pipeline.experiment.judge,
                depth=depth,
            )

    def searcher(
        self, pipeline: Pipeline, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
    ) -> Search:
        """Return the search for the texts of one query, from the words to the best chunks."""
        index = LexicalIndex.load(pipeline.artifact(_index_key(retriever)).path)
        queries = pipeline.artifact(_queries_key(retriever)).table()
        texts = values_by_query(queries.column("query_id"), queries.column("text").to_pylist())
        return lambda query_id: search(index, texts[query_id], depth)


def _config(experiment: Experiment, retriever: str) -> BM25Config:
    config = experiment.retrievers[retriever]
    if not isinstance(config, BM25Config):
        raise TypeError(f"{retriever} is not a lexical retriever")
    return config


def _versions(experiment: Experiment, retriever: str) -> Mapping[str, str]:
    config = _config(experiment, retriever)
    return engine_versions(config.engine, config.analyzer)


def _index_key(retriever: str) -> ArtifactKey:
    return ArtifactKey.of("lexical_index", retriever=retriever)


def _queries_key(retriever: str) -> ArtifactKey:
    return ArtifactKey.of("lexical_queries", retriever=retriever)
