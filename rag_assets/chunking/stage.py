"""``chunks[chunking]``: the corpus, cut; and which texts of the chunks are indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.chunking.chunk_table import cut_documents, indexed_texts
from rag_assets.chunking.chunker import WITH_HEADINGS, Embed
from rag_assets.code_versions.closure import Root
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.config import ChunkingConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.encoder import Encoder
from rag_assets.models.unit_vectors import Vectors
from rag_assets.schemas import CHUNKS
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.blocks import BlockedTable, KnownBlocks, stored_blocks


class Chunks(Stage):
    """One partition a chunking."""

    name = "chunks"
    dimensions: ClassVar[tuple[str, ...]] = ("chunking",)
    schema = CHUNKS
    row = "One chunk: the span [start, end) of a document's text that is retrieved as a unit."
    group = "chunks"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "indexed": ("chunk_id", "title", "heading_path", "text", "parent_chunk_id"),
        "spans": (
            "chunk_id",
            "document_id",
            "start",
            "end",
            "parent_chunk_id",
            "parent_start",
            "parent_end",
        ),
    }

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [chunks_key(name) for name in experiment.chunkings]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return experiment.chunkings[key["chunking"]].code_roots()

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("documents", DOCUMENTS_KEY, "text")]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return context.experiment.chunkings[key["chunking"]].cutting()

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return context.experiment.chunkings[key["chunking"]].versions()

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        documents = context.artifact(DOCUMENTS_KEY)
        name = key["chunking"]
        config = context.experiment.chunkings[name]
        cut = partial(
            cut_documents,
            cut=config.cutter(partial(_embed, context, name)),
            whole=config.whole_documents,
            whole_parents=config.whole_parents,
        )
        if config.by_blocks:
            return _cut_by_blocks(documents, cut, self.similar_artifacts(context, key))
        else:
            return TableProduct(cut(documents.table()))


def _cut_by_blocks(
    documents: Artifact, cut: Callable[[pa.Table], pa.Table], alike: Iterable[Artifact]
) -> TableProduct:
    def chunks(rows: Callable[[], pa.Table]) -> pa.Table:
        return cut(rows())

    built = BlockedTable(KnownBlocks(alike))
    for digest, rows in stored_blocks(documents, "document_id", "text"):
        built.add(digest, partial(chunks, rows))
    return TableProduct(built.table(), blocks=built.blocks)


def _embed(context: StageContext, chunking: str, model: str) -> Embed:
    cache = context.cache_folder("embeddings")
    encoder = Encoder(model, cache=cache, compute=context.compute)

    def embed(texts: Sequence[str]) -> Vectors:
        with context.progress(f"embed sentences for {chunking}", len(texts)) as advance:
            return encoder.encode(texts, kind="document", progress=advance)

    return embed


def chunks_key(chunking: str) -> ArtifactKey:
    """Return the partition of one chunking."""
    return ArtifactKey.of("chunks", chunking=chunking)


def indexed_fields(experiment: Experiment, chunking: str) -> str:
    """Return which texts of a chunk are indexed, for the recipe of an index."""
    headings = _indexes_headings(experiment.chunkings[chunking])
    return "title+heading+text" if headings else "title+text"


def texts_to_index(experiment: Experiment, chunking: str, chunks: pa.Table) -> list[str]:
    """Return what is indexed for each chunk of a chunking."""
    return indexed_texts(chunks, headings=_indexes_headings(experiment.chunkings[chunking]))


def _indexes_headings(chunking: ChunkingConfig) -> bool:
    """Return whether the heading path of a chunk is indexed, by one of its parts at least."""
    parts = (getattr(chunking, name, None) for name in ("child", "parent"))
    return any(getattr(part, "indexed", "") == WITH_HEADINGS for part in (chunking, *parts))
