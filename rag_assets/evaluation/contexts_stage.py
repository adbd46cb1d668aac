"""``retriever_contexts``: what is returned for a chunk, and its tokens.

A retriever searches chunks and returns the parent of a chunk that has one, else the chunk. What is
returned is text of the document, ``text[start:end]``; titles and headings, which are indexed with
it, are not counted.

With ``expand`` the units beside a hit are returned with it, as one span, from the first character
of its window to the last: chunks that overlap repeat nothing, and what lies between them is part of
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.units import (
    CountTokens,
    Span,
    context_column,
    text_digest,
    text_of,
    unit_ids,
    with_neighbours,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.model_names import named_tokenizer, tokenizer_versions
from rag_assets.models.token_counts import counts_by
from rag_assets.retrieval.external.units import chunks_of, returned_spans, texts_not_located
from rag_assets.retrieval.runs_stage import hits_key
from rag_assets.schemas import RETRIEVER_CONTEXTS, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import ArtifactKey


class RetrieverContexts(Stage):
    """The texts that a retriever can return, and how many tokens they have."""

    name = "retriever_contexts"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    made_for = "read_retrievers"
    schema = RETRIEVER_CONTEXTS
    row = "One text that this retriever can return, and its tokens."
    group = "chunks"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {"tokens": ("context_id", "n_tokens")}

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunkings = experiment.chunkings_of(key["retriever"])
        located = experiment.located_of(key["retriever"])
        inputs = [Input(f"chunks_{n}", chunks_key(name)) for n, name in enumerate(chunkings)]
        inputs += [Input(f"units_{n}", hits_key(name), "units") for n, name in enumerate(located)]
        # An edge of the graph exists for all partitions or for none.
        if any(_reads_documents(experiment, name) for name in experiment.retrievers):
            is_read = _reads_documents(experiment, key["retriever"])
            inputs.append(Input("documents", DOCUMENTS_KEY, "text", is_read=is_read))
        return inputs

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        expand = context.experiment.retrievers[key["retriever"]].neighbours
        expanded = {} if expand is None else {"expand": expand.model_dump(mode="json")}
        return {"judge": context.experiment.judge, **expanded}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return tokenizer_versions(context.experiment.config.context.tokenizer)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, name = context.experiment, key["retriever"]
        tables = [chunking_contexts(context, c) for c in experiment.chunkings_of(name)]
        for located in experiment.located_of(name):
            units = returned_spans(chunks_of(context.artifact(hits_key(located))))
            tables.append(contexts(units, {}, partial(_count_tokens, context, located)))
        expand = experiment.retrievers[name].neighbours
        if expand is not None:
            documents, count = document_texts(context), partial(_count_tokens, context, name)
            tables = [expanded_contexts(table, expand.chunks, documents, count) for table in tables]
        return TableProduct(of_retriever(tables, experiment.judge))


def _reads_documents(experiment: Experiment, retriever: str) -> bool:
    """Return whether it returns what no chunk holds: a parent, or neighbours with it."""
    chunkings = (experiment.chunkings[name] for name in experiment.chunkings_of(retriever))
    expands = experiment.retrievers[retriever].neighbours is not None
    return expands or any(chunking.has_parents for chunking in chunkings)


def chunking_contexts(context: StageContext, chunking: str) -> pa.Table:
    """Return what is returned for every chunk of a chunking, see :func:`contexts`."""
    has_parents = context.experiment.chunkings[chunking].has_parents
    documents = document_texts(context) if has_parents else {}
    chunks = context.artifact(chunks_key(chunking)).table()
    return contexts(chunks, documents, partial(_count_tokens, context, chunking))


def contexts(chunks: pa.Table, documents: Mapping[str, str], count: CountTokens) -> pa.Table:
    """Return what is returned for every chunk, in the order of the chunks.

    ``documents`` (texts by id) may be empty where no chunk has a parent; ``count`` counts tokens.
    """
    spans = {
        "chunk_id": chunks["chunk_id"],
        "unit_id": unit_ids(chunks, "evidence"),
        "document_id": chunks["document_id"],
        "start": pc.coalesce(chunks["parent_start"], chunks["start"]),
        "end": pc.coalesce(chunks["parent_end"], chunks["end"]),
    }
    table = pa.table(spans)
    has_parent = pc.is_valid(chunks["parent_chunk_id"]).to_pylist()
    texts: dict[Span, str] = {}
    for span, parent, text in zip(
        _spans(table), has_parent, chunks["text"].to_pylist(), strict=True
    ):
        if span not in texts:
            texts[span] = text_of(documents, span) if parent else text
    return _counted(table, texts, count)


def expanded_contexts(
    contexts: pa.Table, neighbours: int, documents: Mapping[str, str], count: CountTokens
) -> pa.Table:
    """Return what is returned for every chunk of one chunking together with its neighbours."""
    table = with_neighbours(contexts.drop_columns(["n_tokens", "text_digest"]), neighbours)
    texts = {span: text_of(documents, span) for span in dict.fromkeys(_spans(table))}
    return _counted(table, texts, count)


def _spans(table: pa.Table) -> Iterable[Span]:
    return column_values(table, "document_id", "start", "end")


def _counted(spans: pa.Table, texts: Mapping[Span, str], count: CountTokens) -> pa.Table:
    """Return spans with the tokens and the digest of the text of each."""
    tokens = dict(zip(texts, count(list(texts.values())), strict=True))
    columns = {name: spans[name] for name in spans.column_names}
    columns["n_tokens"] = pa.array([tokens[span] for span in _spans(spans)], pa.int64())
    digests = [text_digest(texts[span]) for span in _spans(spans)]
    return pa.table({**columns, "text_digest": pa.array(digests, pa.string())})


def of_retriever(tables: Sequence[pa.Table], judge: str) -> pa.Table:
    """Return the texts that a retriever can return, by what stands for them in its runs.

    ``tables`` are the contexts of all chunkings that its runs can hold. Where documents are judged
    and a fusion's chunkings return different texts for the same chunk, it is the longest: a run
    does not say which of them it was.
    """
    names = RETRIEVER_CONTEXTS.arrow().names
    table = pa.concat_tables(tables).select([context_column(judge), *names[1:]])
    longest = [("context_id", "ascending"), ("n_tokens", "descending"), ("start", "ascending")]
    table = table.rename_columns(names).sort_by(longest).combine_chunks()
    ids = table["context_id"].to_pylist()
    is_first = [place == 0 or ids[place - 1] != name for place, name in enumerate(ids)]
    by_id = table.filter(pa.array(is_first, pa.bool_()))
    return RETRIEVER_CONTEXTS.check(by_id.combine_chunks())


def document_texts(context: StageContext) -> dict[str, str]:
    """Return the text of every document by its id, and returned texts that are from none."""
    table = context.artifact(DOCUMENTS_KEY).table()
    texts: dict[str, str] = dict(column_values(table, "document_id", "text"))
    for name in context.experiment.retrievers:
        hits = context.current(hits_key(name)) if context.experiment.locates(name) else None
        texts |= texts_not_located(chunks_of(hits)) if hits is not None else {}
    return texts


def _count_tokens(context: StageContext, name: str, texts: Sequence[str]) -> list[int]:
    """Count tokens; those of a text that was counted before are in a cache."""
    file = named_tokenizer(context.experiment.config.context.tokenizer)
    cache = context.cache_folder("token_counts")
    with context.progress(f"count tokens of {name}", len(texts)) as advance:
        counts = counts_by(file, texts, cache, special=False, progress=advance)
    return list(counts.tolist())


def retriever_contexts_key(retriever: str) -> ArtifactKey:
    """Return the contexts of one retriever."""
    return ArtifactKey.of("retriever_contexts", retriever=retriever)
