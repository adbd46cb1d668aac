"""``chunks[chunking]``: the corpus, cut; ``index_texts[chunking]``: by which texts it is found.

A request shows a model one chunk, for a context also its document: so an edited document asks for
its own chunks alone, and every other reply is in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.chunking.chunker import WITH_HEADINGS, DocumentCut, Embed
from rag_assets.chunking.index_texts import (
    CONTEXT,
    INDEX_TEXTS,
    IndexText,
    Texts,
    WrittenTexts,
    asked_texts,
    chunk_requests,
    index_rows,
    index_texts,
    indexed_texts,
    template_of,
    texts_from_file,
)
from rag_assets.code_versions.closure import Root
from rag_assets.engine.outgoing import (
    ExpectedWork,
    Outgoing,
    RequestUsage,
    asked_config,
    asked_facts,
    counted_requests,
    keep_usage,
    llm_line,
    llm_work,
    needed,
)
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.config import ChunkingConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.cache_fill import Vectors
from rag_assets.models.encoder import Encoder
from rag_assets.schemas import CHUNKS, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.blocks import BlockedTable, KnownBlocks, stored_blocks


class Chunks(Stage):
    """The documents, cut into chunks by one chunking strategy."""

    name = "chunks"
    dimensions: ClassVar[tuple[str, ...]] = ("chunking",)
    made_for = "chunkings"
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
        cut = DocumentCut(context.experiment.chunkings[name], partial(_embed, context, name))
        if not cut.config.by_blocks:
            return TableProduct(cut(documents.table()))
        earlier = KnownBlocks(self.similar_artifacts(context, key))
        built = BlockedTable(earlier, context.store.root)
        blocks = stored_blocks(documents, "document_id", "text")
        built.add(blocks, cut, context.compute.for_rows(documents.manifest.rows))
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


def texts_to_index(experiment: Experiment, chunking: str, chunks: pa.Table) -> pa.ChunkedArray:
    """Return what is indexed for each chunk of a chunking."""
    return indexed_texts(chunks, headings=_indexes_headings(experiment.chunkings[chunking]))


def _indexes_headings(chunking: ChunkingConfig) -> bool:
    """Return whether the heading path of a chunk is indexed, by one of its parts at least."""
    parts = (getattr(chunking, name, None) for name in ("child", "parent"))
    return any(getattr(part, "indexed", "") == WITH_HEADINGS for part in (chunking, *parts))


class IndexTexts(Stage):
    """The texts by which chunks are found: their own, their headings, or summaries."""

    name = "index_texts"
    dimensions: ClassVar[tuple[str, ...]] = ("chunking",)
    schema = INDEX_TEXTS
    row = "One text by which one chunk is found: its own, its headings, or what was written of it."
    group = "chunks"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [
            index_texts_key(name)
            for name, config in experiment.chunkings.items()
            if config.index_texts is not None
        ]

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        return [option.llm for option in texts_of(experiment, key) if option.asks]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("chunks", chunks_key(key["chunking"])),
            Input("documents", DOCUMENTS_KEY, "text"),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        options = texts_of(context.experiment, key)
        return {
            "indexed": indexed_fields(context.experiment, key["chunking"]),
            "index_texts": [_described(context, option) for option in options],
        }

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        chunks = context.artifact(chunks_key(key["chunking"])).table()
        options = texts_of(context.experiment, key)
        usages: list[RequestUsage] = []
        written = {
            option.kind: _ask_llm(context, key, option, chunks, usages)
            if option.file is None
            else texts_from_file(option, option.file, chunks)
            for option in options
            if option.is_written
        }
        keep_usage(context, key, usages)
        indexed = texts_to_index(context.experiment, key["chunking"], chunks).to_pylist()
        texts: dict[str, Texts] = {kind: result.texts for kind, result in written.items()}
        table = index_texts(chunks, indexed, [option.kind for option in options], texts)
        results = written.values()
        facts: dict[str, Any] = {"notes": [note for result in results for note in result.notes]}
        served = (name for result in results for name in result.served_models)
        facts |= asked_facts(sum(result.unanswered for result in results), served)
        return TableProduct(table, facts)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        lines: list[Outgoing] = []
        chunks, documents = (
            context.current(read) for read in (chunks_key(key["chunking"]), DOCUMENTS_KEY)
        )
        for option in texts_of(context.experiment, key):
            line = llm_line(context.experiment, option.llm) if option.asks else None
            if line is None:
                continue
            if chunks is None or documents is None:
                lines.append(replace(line, questions=0))
                continue
            requests = chunk_requests(option, chunks.table(), documents_shown(context, option))
            needs = needed(context, option.llm, requests)
            lines.append(line.needing(needs, questions=0, passages=needs.calls))
        return llm_work(lines)


def _ask_llm(
    context: StageContext,
    key: ArtifactKey,
    option: IndexText,
    chunks: pa.Table,
    usages: list[RequestUsage],
) -> WrittenTexts:
    label = f"ask for {option.kind} of {key['chunking']}"
    with (
        context.completions(label, chunks.num_rows, option.llm) as completions,
        counted_requests(completions.budget, usages),
    ):
        return asked_texts(option, chunks, documents_shown(context, option), completions)


def _described(context: StageContext, option: IndexText) -> Mapping[str, Any]:
    described = dict(option.described())
    if option.asks:
        described |= asked_config(context.experiment, option.llm, template_of(option))
    elif option.file is not None:
        described["file"] = context.file_digest(option.file)
    return described


def texts_of(experiment: Experiment, key: ArtifactKey) -> Sequence[IndexText]:
    """Return the kinds of texts of a partition that is named by a chunking."""
    return experiment.chunkings[key["chunking"]].index_texts or ()


def documents_shown(context: StageContext, option: IndexText) -> dict[str, str]:
    """Return document id -> text, of all documents where a prompt has them, else of none."""
    if option.kind != CONTEXT:
        return {}
    documents = context.artifact(DOCUMENTS_KEY).table(["document_id", "text"])
    return dict(column_values(documents, "document_id", "text"))


def index_texts_key(chunking: str) -> ArtifactKey:
    """Return the texts by which the chunks of a chunking are found."""
    return ArtifactKey.of("index_texts", chunking=chunking)


def index_inputs(experiment: Experiment, chunking: str) -> list[Input]:
    """Return what an index of a chunking is made of."""
    chunks = Input("chunks", chunks_key(chunking), "indexed")
    if experiment.chunkings[chunking].index_texts is None:
        return [chunks]
    return [chunks, Input("index_texts", index_texts_key(chunking))]


def indexed_rows(
    context: StageContext, chunking: str
) -> tuple[pa.Table, Callable[[pa.Table], pa.ChunkedArray]]:
    """Return the rows of an index of a chunking, and what gives the texts of some of them.

    They are its chunks; with ``index_texts`` there is a row for each of a chunk's texts, see
    :func:`rag_assets.chunking.index_texts.index_rows`.
    """
    chunks = context.artifact(chunks_key(chunking)).table()
    if context.experiment.chunkings[chunking].index_texts is None:
        return chunks, partial(texts_to_index, context.experiment, chunking)
    rows = index_rows(chunks, context.artifact(index_texts_key(chunking)).table())
    return rows, lambda some: some.column("text")


def current_index_texts(context: StageContext, chunking: str) -> list[str] | None:
    """Return the texts of an index of a chunking; None: they are to be made first."""
    if context.experiment.chunkings[chunking].index_texts is None:
        return current_chunk_texts(context, [chunking])
    artifact = context.current(index_texts_key(chunking))
    return artifact.table()["text"].to_pylist() if artifact is not None else None


def current_chunk_texts(context: StageContext, chunkings: Iterable[str]) -> list[str] | None:
    """Return the texts of all chunks as they are indexed; None: they are to be cut first.

    None also where a run holds other texts than chunks, the parents of small ones.
    """
    texts: list[str] = []
    for name in chunkings:
        artifact = context.current(chunks_key(name))
        if artifact is None or context.experiment.chunkings[name].has_parents:
            return None
        texts += indexed_texts(artifact.table(), headings=True).to_pylist()
    return texts
