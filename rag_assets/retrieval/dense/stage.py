"""The embedding branch: ``embedding_index``, ``embedding_queries`` and ``embedding_runs``.

Single queries are timed past the vector cache. A model is never loaded for a measurement alone,
which would cost seconds. Single queries are timed when the model was needed for others; their times
are those of the model, and serve every ranking. A server is asked for the queries of the sample one
at a time, and for the others in batches: it is asked for nothing only to measure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa

from rag_assets.chunking.stage import current_index_texts, indexed_rows
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.compute.compute import Compute
from rag_assets.engine.latency_sample import (
    BUDGET_SECONDS,
    keep_part,
    kept_part,
    time_each,
    timed_queries,
    values_by_query,
)
from rag_assets.engine.outgoing import TEXTS, ExpectedWork, retriever_line
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import FolderProduct, TableProduct
from rag_assets.engine.stage_context import Part, StageContext
from rag_assets.errors import StoreError
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.token_counts import unknown_share, unreadable_warning
from rag_assets.progress import no_progress
from rag_assets.query_sets.stage import query_set_key, writing_parts
from rag_assets.retrieval.array_folder import DIGESTS_FILE
from rag_assets.retrieval.base import ORIGINAL, EmbeddingRetriever, Searcher
from rag_assets.retrieval.base_runs_stage import BaseRuns, IndexStage, save_units
from rag_assets.retrieval.dense.vector_index import sharded
from rag_assets.retrieval.runs_stage import RetrieverStage
from rag_assets.retrieval.workspace import Usage, Workspace, retriever_prompts, total_usage
from rag_assets.schemas import QUERY_VECTORS
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import WITHOUT_CARRY_OVER, ArtifactKey
from rag_assets.store.canonical import fingerprint

ENCODE = "encode"

FAMILY = "embedding"


class EmbeddingIndexes(IndexStage):
    """The vectors of all chunks under one embedding model."""

    name = "embedding_index"
    family = FAMILY
    kinds_by: ClassVar[tuple[str, ...]] = ("model_kind", "search_kind")
    row = "The vectors of all chunks under one embedding model, as they are searched."

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        described = _config(context, key["retriever"]).describe("document")
        return {**super().config(context, key), **described}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> FolderProduct:
        config = _config(context, key["retriever"])
        chunking = context.experiment.chunking_of(key["retriever"])
        workspace = context.workspace(key["retriever"], key)
        with suppress(StopIteration, StoreError):  # there is none, or it cannot be fetched
            earlier = next(self.similar_artifacts(context, key)).folder
            workspace = replace(workspace, earlier=earlier)
        rows, texts_of = indexed_rows(context, chunking)
        write = partial(_index, config, rows, texts_of(rows).to_pylist(), workspace)
        return FolderProduct(write, carry_over_file=DIGESTS_FILE)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        *_, last = self.inputs(context.experiment, key)
        chunking = context.experiment.chunking_of(key["retriever"])
        texts = partial(current_index_texts, context, chunking)
        return _embedding_work(context, key["retriever"], last.key, texts, "document")


def _index(
    config: EmbeddingRetriever,
    chunks: pa.Table,
    texts: list[str],
    workspace: Workspace,
    folder: Path,
) -> tuple[int, Mapping[str, Any]]:
    """Write an index, and warn when over 5 % of the tokens are unknown to the model."""
    facts = dict(config.build(chunks, texts, folder, workspace))
    save_units(folder, chunks)
    notes, files = [*facts.get("notes", ())], config.tokenizer_files()
    if files is not None:
        line = unreadable_warning("chunks", unknown_share(texts, files), files)
        notes += [line] if line is not None else []
    prompts = retriever_prompts(config, served=config.asks_server)
    if prompts is not None and prompts.note is not None:
        notes, facts["prompts"] = [prompts.note, *notes], prompts.note
    return chunks.num_rows, {**facts, "notes": notes} if notes else facts


class EmbeddingQueries(RetrieverStage):
    """The vectors of the queries, under the model of an embedding retriever."""

    name = "embedding_queries"
    family = FAMILY
    schema = QUERY_VECTORS
    kinds_by: ClassVar[tuple[str, ...]] = ("model_kind",)
    row = "The vector of one variant of one query, as this retriever searches for it."
    group = "search"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("query_set", query_set_key(experiment.query_set_of(key["retriever"])))]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return _config(context, key["retriever"]).describe("query")

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        retriever = key["retriever"]
        query_set = context.experiment.query_set_of(retriever)
        artifact = context.artifact(query_set_key(query_set))
        config = _config(context, retriever)
        variants = artifact.table()
        workspace = context.workspace(retriever, key)
        if config.asks_server:
            table = _ask_server(context, key, variants, workspace)
        else:
            table = config.encode(variants, workspace)
            _timed_alone(context, key, variants)
        return TableProduct(table, failures=artifact.manifest.failures)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        read = query_set_key(context.experiment.query_set_of(key["retriever"]))

        def texts() -> list[str] | None:
            # The original queries are known before the query set is made of them.
            variants = context.current(QUERIES_KEY if read == query_set_key(ORIGINAL) else read)
            return variants.table()["text"].to_pylist() if variants is not None else None

        return _embedding_work(context, key["retriever"], read, texts, "query")


def _embedding_work(
    context: StageContext,
    retriever: str,
    read: ArtifactKey,
    texts: Callable[[], list[str] | None],
    kind: Literal["query", "document"],
) -> ExpectedWork:
    """Return how many texts are embedded, and what a server that does it is asked."""
    rows, line = context.current(read), retriever_line(context.experiment, retriever)
    amounts = {TEXTS: rows.manifest.rows} if rows is not None else None
    config = _config(context, retriever)
    if line is None or (line.is_local and not config.asks_server):
        return ExpectedWork(amounts)
    line = replace(line, questions=0) if kind == "document" else replace(line, passages=0)
    sent = texts() if config.asks_server else None
    needs = config.expected_requests(sent, kind) if sent is not None else None
    if sent is not None and needs is not None:
        n_texts = len(sent)
        questions, passages = (0, n_texts) if kind == "document" else (n_texts, 0)
        line = line.needing(needs, questions=questions, passages=passages)
        if kind == "query":  # those of the sample go alone, before the batches of the others
            size = context.experiment.config.measurements.latency_sample
            line = replace(line, requests=(line.requests or 0) + min(size, n_texts))
    return ExpectedWork(amounts, (line,))


class EmbeddingRuns(BaseRuns):
    """Runs of an embedding retriever: the top_k results of each query."""

    name = "embedding_runs"
    family = FAMILY
    of_index = WITHOUT_CARRY_OVER

    def own_code(self) -> list[Root]:
        return [*super().own_code(), root_of(Compute)]

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return _config(context, key["retriever"]).search_versions()

    def search_inputs(self, queries: pa.Table) -> pa.Table:
        return queries

    def sharded(self, context: StageContext, searcher: Searcher[pa.Table]) -> Searcher[pa.Table]:
        return sharded(super().sharded(context, searcher), context.compute)

    def parts_before(self, context: StageContext, retriever: str, top_k: int) -> list[Part] | None:
        written = writing_parts(context, retriever)
        encoded = _encoding_part(context, retriever)
        return None if encoded is None or written is None else [*written, encoded]


def _config(context: StageContext, retriever: str) -> EmbeddingRetriever:
    return EmbeddingRetriever.lookup(retriever, context.experiment.retrievers)


def _timed_alone(context: StageContext, key: ArtifactKey, variants: pa.Table) -> None:
    """Time single queries through a model that is loaded anyway, past its cache."""
    config = _config(context, key["retriever"])
    texts = values_by_query(variants.column("query_id"), variants.column("text").to_pylist())
    sample = timed_queries(context)
    if sample and config.encode_now(texts[sample[0]]):
        part = Part(time_each(sample, lambda name: config.encode_now(texts[name])))
        _keep_times(context, key, part)


def _ask_server(
    context: StageContext, key: ArtifactKey, variants: pa.Table, workspace: Workspace
) -> pa.Table:
    """Have a server embed the sample, a query at a time while the budget lasts, then the others.

    So the times are those of requests that were needed: nothing is asked only to measure.
    """
    config = _config(context, key["retriever"])
    rows = values_by_query(variants.column("query_id"), range(variants.num_rows))
    usages, times, started = list[Usage](), dict[str, float](), time.perf_counter()
    single = replace(workspace, measure=usages.append, progress=no_progress)
    try:
        for query_id in timed_queries(context):
            before, first = time.perf_counter(), len(usages)
            config.encode(variants.take(pa.array(rows[query_id])), single)
            after = time.perf_counter()
            if not any(usage.cached and usage.amount for usage in usages[first:]):
                times[query_id] = 1000 * (after - before)
            if after - started > BUDGET_SECONDS:
                break
        earlier = _encoding_part(context, key["retriever"]) or Part({}, None)
        cost = total_usage(usages, cached=False).cost
        mean = earlier.cost if cost is None or not times else cost / len(times)
        _keep_times(context, key, Part({**earlier.times, **times}, mean))
        usages = [usage for usage in usages if not usage.cached]
        n_new = sum(usage.amount for usage in usages)
        table = config.encode(variants, replace(workspace, measure=usages.append))
    finally:
        workspace.measure(total_usage(usages, cached=False))
    cached = total_usage(usages, cached=True)
    workspace.measure(replace(cached, amount=max(cached.amount - n_new, 0)))
    return table


def _encoding_part(context: StageContext, retriever: str) -> Part | None:
    """Return what single queries take through the model; None when it was never timed."""
    return kept_part(context, ENCODE, _model_key(context, retriever))


def _keep_times(context: StageContext, key: ArtifactKey, part: Part) -> None:
    model = _model_key(context, key["retriever"])
    keep_part(context, ENCODE, model, part, asset=key.asset, retriever=key["retriever"])


def _model_key(context: StageContext, retriever: str) -> str:
    """Return what the times belong to: a model, and how many texts it reads for a query."""
    query_set = context.experiment.query_sets.get(context.experiment.query_set_of(retriever))
    written = query_set.model_dump(mode="json") if query_set is not None else None
    return fingerprint([_config(context, retriever).describe("query"), written])
