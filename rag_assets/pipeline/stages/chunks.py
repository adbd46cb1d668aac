"""``chunks[chunking]``: the corpus, cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

from rag_assets.chunking import none, recursive
from rag_assets.embedding.models import resolve_model
from rag_assets.experiment.config import RecursiveChunking
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stage import Input, Stage, TableProduct
from rag_assets.pipeline.stages.sources import DOCUMENTS_KEY
from rag_assets.schemas import CHUNKS
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


class Chunks(Stage):
    """One partition a chunking."""

    name = "chunks"
    dimensions: ClassVar[tuple[str, ...]] = ("chunking",)
    schema = CHUNKS
    row = "One chunk: the span [start, end) of a document's text that is retrieved as a unit."
    group = "chunks"
    code_version = "1"
    implementation: ClassVar[tuple[str, ...]] = ("rag_assets.chunking",)
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "indexed": ("chunk_id", "title", "text"),
        "spans": ("chunk_id", "document_id", "start", "end"),
    }

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [chunks_key(name) for name in experiment.chunkings]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("documents", DOCUMENTS_KEY, "text")]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        return pipeline.experiment.chunkings[key["chunking"]].model_dump(mode="json")

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        config = pipeline.experiment.chunkings[key["chunking"]]
        if not isinstance(config, RecursiveChunking):
            return {}
        return {
            "semantic-text-splitter": version("semantic-text-splitter"),
            "tokenizers": version("tokenizers"),
            "tokenizer_sha256": resolve_model(config.tokenizer).tokenizer_sha256,
        }

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        documents = pipeline.artifact(DOCUMENTS_KEY).table()
        for key in keys:
            config = pipeline.experiment.chunkings[key["chunking"]]
            if isinstance(config, RecursiveChunking):
                table = recursive.cut(
                    documents,
                    max_tokens=config.max_tokens,
                    overlap=config.overlap,
                    tokenizer=config.tokenizer,
                )
            else:
                table = none.cut(documents)
            yield key, TableProduct(table)


def chunks_key(chunking: str) -> ArtifactKey:
    """Return the partition of one chunking."""
    return ArtifactKey.of("chunks", chunking=chunking)
