"""``chunks[chunking]``: the corpus, cut.

And the way from the configuration of a chunking to the function that cuts, and what that reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.chunking import fixed, markdown, none, parent, recursive, semantic, sentences
from rag_assets.chunking.chunk_table import cut_documents, indexed_texts
from rag_assets.chunking.pieces import Cutter
from rag_assets.chunking.semantic import Embed
from rag_assets.chunking.size import Size
from rag_assets.code_versions.closure import Root
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.config import (
    ChunkingConfig,
    FixedChunking,
    MarkdownChunking,
    NoneChunking,
    ParentChunking,
    RecursiveChunking,
    SemanticChunking,
    SentencesChunking,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import resolve_model
from rag_assets.models.unit_vectors import Vectors
from rag_assets.package_versions import version
from rag_assets.schemas import CHUNKS
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.blocks import BlockedTable, KnownBlocks, rows_digest, table_blocks
from rag_assets.store.canonical import fingerprint

_CUT = ("document_id", "title", "text")
"""What of a document is cut, or stands in its chunks."""


EmbedBy = Callable[[str], Embed]
"""``embed_by(model)`` gives what embeds texts by that model."""

Sized = RecursiveChunking | FixedChunking | MarkdownChunking

_LIBRARIES: Mapping[type, tuple[str, ...]] = {
    RecursiveChunking: ("semantic-text-splitter",),
    MarkdownChunking: ("markdown-it-py", "semantic-text-splitter"),
    SentencesChunking: ("sentencex",),
    SemanticChunking: (
        "numpy",
        "semantic-text-splitter",
        "sentence-transformers",
        "sentencex",
        "torch",
        "transformers",
    ),
}

NO_STRATEGY: Root = f"{__name__}:_CUTTERS[]"
"""Of the strategies, only those count that are named."""


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

    def own_code(self) -> list[Root]:
        return [*super().own_code(), NO_STRATEGY]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return code(experiment.chunkings[key["chunking"]])

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("documents", DOCUMENTS_KEY, "text")]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return cutting(context.experiment.chunkings[key["chunking"]])

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return versions(context.experiment.chunkings[key["chunking"]])

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        documents = context.artifact(DOCUMENTS_KEY).table()
        for key in keys:
            name = key["chunking"]
            config = context.experiment.chunkings[name]
            outer = config.parent if isinstance(config, ParentChunking) else None
            cut = partial(
                cut_documents,
                cut=cutter(config, partial(_embed, context, name)),
                whole=isinstance(config, NoneChunking),
                whole_parents=isinstance(outer, NoneChunking),
            )
            if cuts_by_blocks(config):
                yield key, _cut_by_blocks(documents, cut, self.similar_artifacts(context, key))
            else:
                yield key, TableProduct(cut(documents))


def _cut_by_blocks(
    documents: pa.Table, cut: Callable[[pa.Table], pa.Table], alike: Iterable[Artifact]
) -> TableProduct:
    built = BlockedTable(KnownBlocks(alike))
    for block in table_blocks(documents.select(_CUT), "document_id", "text"):
        built.add(rows_digest(block), partial(cut, block))
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
    headings = indexes_headings(experiment.chunkings[chunking])
    return "title+heading+text" if headings else "title+text"


def texts_to_index(experiment: Experiment, chunking: str, chunks: pa.Table) -> list[str]:
    """Return what is indexed for each chunk of a chunking."""
    return indexed_texts(chunks, headings=indexes_headings(experiment.chunkings[chunking]))


def _recursive(config: RecursiveChunking, _: EmbedBy) -> Cutter:
    return recursive.cutter(_size(config))


def _fixed(config: FixedChunking, _: EmbedBy) -> Cutter:
    return fixed.cutter(_size(config))


def _markdown(config: MarkdownChunking, _: EmbedBy) -> Cutter:
    return markdown.cutter(_size(config), max_level=config.max_level)


def _sentences(config: SentencesChunking, _: EmbedBy) -> Cutter:
    return sentences.cutter(
        sentences=config.sentences, overlap=config.overlap, language=config.language
    )


def _semantic(config: SemanticChunking, embed_by: EmbedBy) -> Cutter:
    return semantic.cutter(
        embed_by(config.model),
        percentile=config.percentile,
        buffer=config.buffer,
        language=config.language,
        limit=Size(config.max_tokens, 0, config.model) if config.max_tokens else None,
    )


def _parent(config: ParentChunking, embed_by: EmbedBy) -> Cutter:
    return parent.cutter(cutter(config.child, embed_by), cutter(config.parent, embed_by))


_CUTTERS: Mapping[type, Callable[[Any, EmbedBy], Cutter]] = {
    NoneChunking: lambda config, embed_by: none.cut,
    RecursiveChunking: _recursive,
    FixedChunking: _fixed,
    MarkdownChunking: _markdown,
    SentencesChunking: _sentences,
    SemanticChunking: _semantic,
    ParentChunking: _parent,
}


def cutter(config: ChunkingConfig, embed_by: EmbedBy) -> Cutter:
    """Return the function that cuts as ``config`` says."""
    return _CUTTERS[type(config)](config, embed_by)


def code(config: ChunkingConfig) -> list[Root]:
    """Return the roots of the code that cuts."""
    inner = [config.child, config.parent] if isinstance(config, ParentChunking) else []
    names = dict.fromkeys(type(item).__name__ for item in (config, *inner))
    return [f"{__name__}:_CUTTERS[{name}]" for name in names]


def versions(config: ChunkingConfig) -> Mapping[str, str]:
    """Return the versions of the libraries, the tokenizer and the model that cut.

    Raises:
        ModelUnavailable: the tokenizer or the model cannot be had.
    """
    if isinstance(config, ParentChunking):
        parts = {"child": versions(config.child), "parent": versions(config.parent)}
        return {f"{part}.{name}": v for part, found in parts.items() for name, v in found.items()}
    found = {name: version(name) for name in _LIBRARIES.get(type(config), ())}
    tokenizer = _tokenizer(config)
    if tokenizer is not None:
        found["tokenizers"] = version("tokenizers")
        found["tokenizer_sha256"] = resolve_model(tokenizer).tokenizer_sha256
    if isinstance(config, SemanticChunking):
        found["encoder"] = fingerprint(Encoder(config.model).describe("document"))
    return found


def cuts_by_blocks(config: ChunkingConfig) -> bool:
    """Return whether a document is cut the same whatever else is cut with it."""
    if isinstance(config, ParentChunking):
        return config.child.by_blocks and config.parent.by_blocks
    return config.by_blocks


def indexes_headings(config: ChunkingConfig) -> bool:
    """Return whether the heading path of a chunk is indexed between title and text."""
    if isinstance(config, ParentChunking):
        return indexes_headings(config.child) or indexes_headings(config.parent)
    return isinstance(config, MarkdownChunking) and config.indexed == "title+heading+text"


def cutting(config: ChunkingConfig) -> Mapping[str, Any]:
    """Return the part of ``config`` that says how to cut, not what is indexed of a chunk."""
    inner = {"indexed"}
    others: Mapping[str, bool | set[str]] = {"indexed": True, "child": inner, "parent": inner}
    return config.model_dump(mode="json", exclude=others)


def _size(config: Sized) -> Size:
    if config.max_characters is not None:
        return Size(config.max_characters, config.overlap)
    if config.max_tokens is None:
        raise TypeError(f"{config.strategy} has no size")
    return Size(config.max_tokens, config.overlap, config.tokenizer)


def _tokenizer(config: ChunkingConfig) -> str | None:
    if isinstance(config, Sized):
        return _size(config).tokenizer
    if isinstance(config, SemanticChunking) and config.max_tokens is not None:
        return config.model
    return None
