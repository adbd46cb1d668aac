"""``retriever_contexts``: what is returned for a chunk; and the tokens of what was returned.

A retriever searches chunks and returns the parent of a chunk that has one, else the chunk. What is
returned is text of the document, ``text[start:end]``; titles and headings, which are indexed with
it, are not counted.

With ``expand`` the units beside a hit are returned with it, as one span, from the first character
of its window to the last: chunks that overlap repeat nothing, and what lies between them is part of
it.

Tokens are counted where a text is returned for a query: those of a large corpus take longer than
all searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.units import (
    Span,
    context_column,
    text_digest,
    text_of,
    unit_ids,
    with_neighbours,
)
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.model_names import named_tokenizer
from rag_assets.models.token_counts import counts_by
from rag_assets.retrieval.external.units import chunks_of, returned_spans, texts_not_located
from rag_assets.retrieval.runs_stage import hits_key
from rag_assets.schemas import RETRIEVER_CONTEXTS, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import rows_at
from rag_assets.store.large_tables import ROWS_AT_ONCE, TableBuilder


class RetrieverContexts(Stage):
    """The texts that a retriever can return."""

    name = "retriever_contexts"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    made_for = "read_retrievers"
    schema = RETRIEVER_CONTEXTS
    row = "One text that this retriever can return: its span of a document."
    group = "chunks"

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

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, name = context.experiment, key["retriever"]
        tables = [chunking_contexts(context, c) for c in experiment.chunkings_of(name)]
        for located in experiment.located_of(name):
            units = returned_spans(chunks_of(context.artifact(hits_key(located))))
            tables.append(contexts(units, {}))
        expand = experiment.retrievers[name].neighbours
        if expand is not None:
            documents = document_texts(context)
            tables = [expanded_contexts(table, expand.chunks, documents) for table in tables]
        return TableProduct(of_retriever(tables, experiment.judge, context.store.root))


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
    return contexts(chunks, documents, context.store.root)


def contexts(
    chunks: pa.Table, documents: Mapping[str, str], folder: Path | None = None
) -> pa.Table:
    """Return what is returned for every chunk, in the order of the chunks.

    ``documents`` (texts by id) may be empty where no chunk has a parent; a large table lies in
    ``folder``.
    """
    built = TableBuilder(folder)
    for start in range(0, chunks.num_rows or 1, ROWS_AT_ONCE):
        built.add(_contexts(chunks.slice(start, ROWS_AT_ONCE), documents))
    return built.table()


def _contexts(chunks: pa.Table, documents: Mapping[str, str]) -> pa.Table:
    spans = {
        "chunk_id": chunks["chunk_id"],
        "unit_id": unit_ids(chunks, "evidence"),
        "document_id": chunks["document_id"],
        "start": pc.coalesce(chunks["parent_start"], chunks["start"]),
        "end": pc.coalesce(chunks["parent_end"], chunks["end"]),
    }
    table, texts = pa.table(spans), chunks["text"].to_pylist()
    if not documents:
        return table.append_column("text_digest", pa.array(map(text_digest, texts), pa.string()))
    has_parent = pc.is_valid(chunks["parent_chunk_id"]).to_pylist()
    by_span: dict[Span, str] = {}
    for span, parent, text in zip(spans_of(table), has_parent, texts, strict=True):
        if span not in by_span:
            by_span[span] = text_of(documents, span) if parent else text
    return _with_digests(table, by_span)


def expanded_contexts(
    contexts: pa.Table, neighbours: int, documents: Mapping[str, str]
) -> pa.Table:
    """Return what is returned for every chunk of one chunking together with its neighbours."""
    table = with_neighbours(contexts.drop_columns(["text_digest"]), neighbours)
    return _with_digests(table, {s: text_of(documents, s) for s in dict.fromkeys(spans_of(table))})


def spans_of(table: pa.Table) -> Iterator[Span]:
    """Yield document, start and end of each row."""
    return column_values(table, "document_id", "start", "end")


def _with_digests(spans: pa.Table, texts: Mapping[Span, str]) -> pa.Table:
    """Return spans with the digest of the text of each."""
    digests = {span: text_digest(text) for span, text in texts.items()}
    column = pa.array(map(digests.__getitem__, spans_of(spans)), pa.string())
    return spans.append_column("text_digest", column)


def of_retriever(tables: Sequence[pa.Table], judge: str, folder: Path | None = None) -> pa.Table:
    """Return the texts that a retriever can return, by what stands for them in its runs.

    ``tables`` are the contexts of all chunkings that its runs can hold. Where documents are judged
    and a fusion's chunkings return different texts for the same chunk, it is the one of the most
    characters: a run does not say which of them it was.
    """
    names = RETRIEVER_CONTEXTS.arrow().names
    table = pa.concat_tables(tables).select([context_column(judge), *names[1:]])
    table = table.rename_columns(names)
    sizes = pc.subtract(table["end"], table["start"])
    longest = [("context_id", "ascending"), ("size", "descending"), ("start", "ascending")]
    order = pc.sort_indices(table.append_column("size", sizes), longest).to_numpy()
    built, last = TableBuilder(folder), None
    built.add(table.slice(0, 0))
    for start in range(0, len(order), ROWS_AT_ONCE):
        rows = rows_at(table, order[start : start + ROWS_AT_ONCE].astype(np.int64))
        ids = rows["context_id"].combine_chunks()
        is_new = pa.array([ids[0].as_py() != last])
        built.add(rows.filter(pa.concat_arrays([is_new, pc.not_equal(ids[1:], ids[:-1])])))
        last = ids[-1].as_py()
    return RETRIEVER_CONTEXTS.check(built.table())


def document_texts(context: StageContext, names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the texts of documents by id, and returned texts that are from none.

    ``names`` are the documents that are wanted; None: all.
    """
    documents = context.artifact(DOCUMENTS_KEY)
    wanted = None if names is None else pa.array(dict.fromkeys(names), pa.string())
    table = documents.table() if wanted is None else documents.rows("document_id", wanted)
    texts: dict[str, str] = dict(column_values(table, "document_id", "text"))
    for name in context.experiment.retrievers:
        hits = context.current(hits_key(name)) if context.experiment.locates(name) else None
        texts |= texts_not_located(chunks_of(hits)) if hits is not None else {}
    return texts


def token_counts(context: StageContext, what: str, spans: Iterable[Span]) -> dict[Span, int]:
    """Return how many tokens the text of each span has.

    Those of a text that was counted before are in a cache. Versions of what counts them:
    :func:`rag_assets.models.model_names.tokenizer_versions`.
    """
    places = list(dict.fromkeys(spans))
    documents = document_texts(context, (place[0] for place in places))
    texts = [text_of(documents, place) for place in places]
    file = named_tokenizer(context.experiment.config.context.tokenizer)
    cache = context.cache_folder("token_counts")
    with context.progress(f"count tokens of {what}", len(texts)) as advance:
        counts = counts_by(file, texts, cache, special=False, progress=advance)
    return dict(zip(places, counts.tolist(), strict=True))


def returned_contexts(context: StageContext, retriever: str, runs: Iterable[pa.Table]) -> pa.Table:
    """Return the contexts of what runs returned: of a large corpus, few of all."""
    column = context_column(context.experiment.judge)
    ids = pa.chunked_array([part for run in runs for part in run[column].chunks], pa.string())
    return context.artifact(retriever_contexts_key(retriever)).rows("context_id", pc.unique(ids))


def retriever_contexts_key(retriever: str) -> ArtifactKey:
    """Return the contexts of one retriever."""
    return ArtifactKey.of("retriever_contexts", retriever=retriever)
