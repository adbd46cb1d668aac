"""The embedding branch: ``embedding_index``, ``embedding_queries`` and ``embedding_runs``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from rag_assets.embedding import flat_index
from rag_assets.embedding.encoder import Encoder
from rag_assets.embedding.search import search
from rag_assets.evaluation.units import unit_ranking
from rag_assets.experiment.config import EmbeddingConfig
from rag_assets.experiment.experiment import QUERY_SET, Experiment
from rag_assets.pipeline.latency_sample import Search, Times, values_by_query
from rag_assets.pipeline.stage import FolderProduct, Input, Stage, TableProduct
from rag_assets.pipeline.stages.chunks import chunks_key, indexed_fields, texts_to_index
from rag_assets.pipeline.stages.embedding_times import (
    encoding_times,
    measure_encoding,
    measured_vectors,
)
from rag_assets.pipeline.stages.index_units import load_units, save_units
from rag_assets.pipeline.stages.query_sets import query_set_key
from rag_assets.pipeline.stages.runs import RunsStage
from rag_assets.schemas import QUERY_VECTORS
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

_ENCODING: tuple[str, ...] = (
    "rag_assets.embedding.encoder",
    "rag_assets.embedding.models",
    "rag_assets.embedding.model_files",
    "rag_assets.embedding.model_config",
    "rag_assets.embedding.unit_vectors",
)


class EmbeddingIndexes(Stage):
    """One partition an embedding retriever: its vectors and ids, as plain files."""

    name = "embedding_index"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    row = "The vectors of all chunks under one embedding model, searched exactly."
    group = "indexes"
    kinds: ClassVar[frozenset[str]] = frozenset({"sentence-transformers", "faiss"})
    code_version = "2"
    implementation: ClassVar[tuple[str, ...]] = (
        *_ENCODING,
        "rag_assets.embedding.flat_index",
        "rag_assets.chunking.spans",
        "rag_assets.pipeline.stages.index_units",
    )

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [_index_key(name) for name in experiment.of_family("embedding")]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunking = experiment.chunking_of(key["retriever"])
        return [Input("chunks", chunks_key(chunking), "indexed")]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        chunking = pipeline.experiment.chunking_of(key["retriever"])
        return {
            **_encoder(pipeline, key["retriever"]).describe("document"),
            "indexed": indexed_fields(pipeline.experiment, chunking),
        }

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        return _versions()

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, FolderProduct]]:
        for key in keys:
            chunking = pipeline.experiment.chunking_of(key["retriever"])
            chunks = pipeline.artifact(chunks_key(chunking)).table()
            texts = texts_to_index(pipeline.experiment, chunking, chunks)
            encoder = _encoder(pipeline, key["retriever"])
            vectors = measured_vectors(pipeline, key, encoder, texts, "document")
            yield key, _index(chunks, vectors)


def _index(chunks: pa.Table, vectors: np.ndarray) -> FolderProduct:
    def write(folder: Path) -> tuple[int, Mapping[str, Any]]:
        facts = flat_index.build(chunks.column("chunk_id").to_pylist(), vectors, folder)
        save_units(folder, chunks)
        return chunks.num_rows, facts

    return FolderProduct(write)


class EmbeddingQueries(Stage):
    """One partition an embedding retriever: the vectors of the query set it searches for."""

    name = "embedding_queries"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = QUERY_VECTORS
    row = "The vector of one variant of one query, as this retriever searches for it."
    group = "queries"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "sentence-transformers"})
    code_version = "1"
    implementation: ClassVar[tuple[str, ...]] = _ENCODING

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [_queries_key(name) for name in experiment.of_family("embedding")]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("query_set", query_set_key(QUERY_SET))]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        return _encoder(pipeline, key["retriever"]).describe("query")

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        return _versions()

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        variants = pipeline.artifact(query_set_key(QUERY_SET)).table()
        texts = variants.column("text").to_pylist()
        for key in keys:
            encoder = _encoder(pipeline, key["retriever"])
            vectors = measured_vectors(pipeline, key, encoder, texts, "query")
            measure_encoding(pipeline, key, encoder, variants)
            yield key, TableProduct(_vectors_table(variants, vectors))


def _vectors_table(variants: pa.Table, vectors: np.ndarray) -> pa.Table:
    count, dimensions = vectors.shape
    offsets = np.arange(0, (count + 1) * dimensions, dimensions, dtype=np.int32)
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    columns = [variants.column("query_id"), variants.column("variant"), lists]
    return pa.table(columns, schema=QUERY_VECTORS.arrow())


class EmbeddingRuns(RunsStage):
    """One partition an embedding retriever and top_k, cut from the retriever's ranking."""

    name = "embedding_runs"
    family = "embedding"
    code_version = "2"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "faiss"})
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.embedding.search",
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
        return {"faiss-cpu": version("faiss-cpu")}

    def rank(self, pipeline: Pipeline, retriever: str, top_k: int, depth: int) -> pa.Table:
        folder = pipeline.artifact(_index_key(retriever)).path
        index = flat_index.FlatIndex.load(folder)
        queries = pipeline.artifact(_queries_key(retriever)).table()
        vectors = _matrix(queries)
        with pipeline.progress(f"search {retriever}", len(vectors)) as advance:
            return unit_ranking(
                queries.column("query_id").to_pylist(),
                load_units(folder, index.chunk_ids),
                lambda numbers, k: search(index, vectors[list(numbers)], k, advance),
                judge=pipeline.experiment.judge,
                depth=depth,
            )

    def searcher(
        self, pipeline: Pipeline, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
    ) -> Search:
        """Return the search for the vectors of one query."""
        index = flat_index.FlatIndex.load(pipeline.artifact(_index_key(retriever)).path)
        queries = pipeline.artifact(_queries_key(retriever)).table()
        rows = values_by_query(queries.column("query_id"), range(queries.num_rows))
        vectors = _matrix(queries)
        return lambda query_id: search(index, vectors[rows[query_id]], depth)

    def times_before(
        self, pipeline: Pipeline, retriever: str, top_k: int, *, cached: bool
    ) -> list[Times] | None:
        """Return how long the model takes for a query whose vector is not known."""
        return [] if cached else encoding_times(pipeline, retriever, _encoder(pipeline, retriever))


def _matrix(queries: pa.Table) -> np.ndarray:
    vectors = queries.column("vector").combine_chunks()
    values: np.ndarray = vectors.flatten().to_numpy()
    return values.reshape(queries.num_rows, -1)


def _encoder(pipeline: Pipeline, retriever: str) -> Encoder:
    config = pipeline.experiment.retrievers[retriever]
    if not isinstance(config, EmbeddingConfig):
        raise TypeError(f"{retriever} is not an embedding retriever")
    return Encoder(
        config.model,
        cache=pipeline.settings.store / "cache" / "embeddings",
        query_prompt=config.query_prompt,
        document_prompt=config.document_prompt,
    )


def _versions() -> Mapping[str, str]:
    return {name: version(name) for name in ("sentence-transformers", "torch", "transformers")}


def _index_key(retriever: str) -> ArtifactKey:
    return ArtifactKey.of("embedding_index", retriever=retriever)


def _queries_key(retriever: str) -> ArtifactKey:
    return ArtifactKey.of("embedding_queries", retriever=retriever)
