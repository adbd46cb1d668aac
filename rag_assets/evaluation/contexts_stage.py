"""``contexts`` and ``retriever_contexts``: what is returned for a chunk, and its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.contexts import CountTokens, contexts, expanded_contexts, of_retriever
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.model_files import sha256
from rag_assets.models.model_names import context_tokenizer_file
from rag_assets.models.token_counts import counts_by
from rag_assets.package_versions import version
from rag_assets.retrieval.external.stage import units_key
from rag_assets.retrieval.external.units import own_contexts, texts_not_located
from rag_assets.retrieval.retriever import WindowExpansion
from rag_assets.schemas import CONTEXTS, RETRIEVER_CONTEXTS
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.blocks import BlockedTable, KnownBlocks, stored_blocks


class Contexts(Stage):
    """One partition a chunking."""

    name = "contexts"
    dimensions: ClassVar[tuple[str, ...]] = ("chunking",)
    schema = CONTEXTS
    row = "One chunk: the span that is returned for it, and the tokens of its text."
    group = "chunks"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.chunkings if experiment.measures_texts else ()
        return [contexts_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        # Only a parent's text is not in the chunks; without parents the documents' ids are named
        # all the same, because an edge of the graph exists for all partitions or for none.
        has_parents = experiment.chunkings[key["chunking"]].has_parents
        return [
            Input("chunks", chunks_key(key["chunking"])),
            Input("documents", DOCUMENTS_KEY, "text" if has_parents else "ids"),
        ]

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return _tokenizer_versions(context)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        chunks = context.artifact(chunks_key(key["chunking"]))
        count = partial(_count_tokens, context, key=key)
        if context.experiment.chunkings[key["chunking"]].has_parents:
            return TableProduct(contexts(chunks.table(), document_texts(context), count))
        else:
            known = KnownBlocks(self.similar_artifacts(context, key))
            return _by_blocks(chunks, count, known)


def _by_blocks(chunks: Artifact, count: CountTokens, known: KnownBlocks) -> TableProduct:
    """Return the contexts of chunks that return themselves; those of known blocks as they were."""
    blocks = [*stored_blocks(chunks, "chunk_id", "text")]
    new = (rows()["text"].to_pylist() for digest, rows in blocks if digest not in known)
    # Counted together: one opening of tokenizer and cache.
    distinct = list(dict.fromkeys(chain.from_iterable(new)))
    tokens = dict(zip(distinct, count(distinct) if distinct else [], strict=True))

    def counted(texts: Sequence[str]) -> list[int]:
        counts = [tokens.get(text) for text in texts]
        return [n for n in counts if n is not None] if None not in counts else count(texts)

    def counted_contexts(rows: Callable[[], pa.Table]) -> pa.Table:
        return contexts(rows(), {}, counted)

    built = BlockedTable(known)
    for digest, rows in blocks:
        built.add(digest, partial(counted_contexts, rows))
    return TableProduct(built.table(), blocks=built.blocks)


class RetrieverContexts(Stage):
    """One partition a retriever: a cell of metrics can depend on a retriever, not on chunkings."""

    name = "retriever_contexts"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = RETRIEVER_CONTEXTS
    row = "One text that this retriever can return, and its tokens."
    group = "chunks"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {"tokens": ("context_id", "n_tokens")}

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.measures_texts else ()
        return [retriever_contexts_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunkings = experiment.chunkings_of(key["retriever"])
        own = experiment.located_of(key["retriever"])
        inputs = [
            Input(f"contexts_{number}", contexts_key(name)) for number, name in enumerate(chunkings)
        ] + [Input(f"units_{number}", units_key(name)) for number, name in enumerate(own)]
        # An edge of the graph exists for all partitions or for none.
        if any(config.neighbours is not None for config in experiment.retrievers.values()):
            expands = experiment.retrievers[key["retriever"]].neighbours is not None
            inputs.append(Input("documents", DOCUMENTS_KEY, "text" if expands else "ids"))
        return inputs

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        expand = context.experiment.retrievers[key["retriever"]].neighbours
        expanded = {} if expand is None else {"expand": expand.model_dump(mode="json")}
        return {"judge": context.experiment.judge, **expanded}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        experiment, name = context.experiment, key["retriever"]
        counts = experiment.retrievers[name].neighbours or experiment.located_of(name)
        return _tokenizer_versions(context) if counts else {}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        chunkings = context.experiment.chunkings_of(key["retriever"])
        tables = [context.artifact(contexts_key(name)).table() for name in chunkings]
        count = partial(_count_tokens, context, key=key)
        for name in context.experiment.located_of(key["retriever"]):
            tables.append(own_contexts(context.artifact(units_key(name)).table(), count))
        expand = context.experiment.retrievers[key["retriever"]].neighbours
        if expand is not None:
            tables = _expanded(context, key, tables, expand)
        return TableProduct(of_retriever(tables, context.experiment.judge))


def _expanded(
    context: StageContext,
    key: ArtifactKey,
    tables: Sequence[pa.Table],
    expand: WindowExpansion,
) -> list[pa.Table]:
    documents = document_texts(context)

    def count(texts: Sequence[str]) -> list[int]:
        return _count_tokens(context, texts, key)

    return [expanded_contexts(table, expand.chunks, documents, count) for table in tables]


def _tokenizer_versions(context: StageContext) -> Mapping[str, str]:
    digest = sha256(_tokenizer(context))
    return {"tokenizers": version("tokenizers"), "tokenizer_sha256": digest}


def document_texts(context: StageContext) -> dict[str, str]:
    """Return the text of every document by its id, and returned texts that are from none."""
    table = context.artifact(DOCUMENTS_KEY).table()
    texts = dict(zip(table["document_id"].to_pylist(), table["text"].to_pylist(), strict=True))
    for name in context.experiment.retrievers:
        units = context.current(units_key(name)) if context.experiment.locates(name) else None
        texts |= texts_not_located(units.table()) if units is not None else {}
    return texts


def _count_tokens(context: StageContext, texts: Sequence[str], key: ArtifactKey) -> list[int]:
    """Count tokens; those of a text that was counted before are in a cache."""
    file, cache = _tokenizer(context), context.cache_folder("token_counts")
    _, name = key.partition[0]
    with context.progress(f"count tokens of {name}", len(texts)) as advance:
        counts = counts_by(file, sha256(file), texts, cache, special=False, progress=advance)
    return list(counts.tolist())


def _tokenizer(context: StageContext) -> Path:
    return context_tokenizer_file(context.experiment.config.context.tokenizer)


def contexts_key(chunking: str) -> ArtifactKey:
    """Return the contexts of one chunking."""
    return ArtifactKey.of("contexts", chunking=chunking)


def retriever_contexts_key(retriever: str) -> ArtifactKey:
    """Return the contexts of one retriever."""
    return ArtifactKey.of("retriever_contexts", retriever=retriever)
