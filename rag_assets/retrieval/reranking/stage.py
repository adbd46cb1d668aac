"""``reranked_runs``: the candidates of another retriever in a new order.

What reads a reranked retriever is ``second_reranked_runs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.index_texts import indexed_texts
from rag_assets.chunking.stage import (
    chunks_key,
    current_chunk_texts,
    indexed_fields,
    texts_to_index,
)
from rag_assets.compute.compute import LOCAL
from rag_assets.engine.latency_sample import keep_part, kept_part
from rag_assets.engine.outgoing import PAIRS, ExpectedWork, Outgoing, retriever_line
from rag_assets.engine.recipe import UNANSWERED, Input, Recipe
from rag_assets.engine.stage_context import Need, Part, Ranked, Search, StageContext
from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.progress import no_progress
from rag_assets.retrieval.base_runs_stage import UNIT_COLUMNS
from rag_assets.retrieval.external.units import chunks_of
from rag_assets.retrieval.reranking.candidates import (
    Candidates,
    Reranked,
    RerankedRetriever,
    candidate_lists,
    complete_ranking,
    reordered,
)
from rag_assets.retrieval.runs_stage import (
    DerivedRuns,
    chunk_keys,
    depth_at_most,
    hits_key,
    run_key,
)
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint

FAMILY, SECOND_FAMILY = "reranked", "second_reranked"
RERANKED_RUNS = (f"{FAMILY}_runs", f"{SECOND_FAMILY}_runs")
"""The assets of rerankers: of base and fused retrievers, and of what reads a reranked one."""

RERANK = "rerank"


class RerankedRuns(DerivedRuns):
    """Runs of a reranker: the results of another retriever in a new order."""

    name = "reranked_runs"
    family = FAMILY
    kinds_by: ClassVar[tuple[str, ...]] = ("model_kind",)

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        queries = Input("queries", QUERIES_KEY, "text")
        return [*super().inputs(experiment, key), queries, *text_inputs(experiment, key)]

    def ranking_config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        config, indexed = _reranker(context, key["retriever"]), indexed_of(context.experiment, key)
        return {**super().ranking_config(context, key), **config.describe(), "indexed": indexed}

    def recipe(self, context: StageContext, key: ArtifactKey) -> Recipe | None:
        """Return the recipe with the number of the ranking's latest attempt."""
        recipe = super().recipe(context, key)
        if recipe is None:
            return None
        ranking = replace(recipe, config=self.ranking_config(context, key))
        return context.attempts.numbered(recipe, ranking)

    def ranking_recipe(self, context: StageContext, retriever: str, top_k: int) -> Recipe | None:
        """Return the recipe with the number of the latest attempt."""
        recipe = super().ranking_recipe(context, retriever, top_k)
        return context.attempts.numbered(recipe) if recipe is not None else None

    def rank(self, context: StageContext, need: Need) -> Ranked:
        """Score the candidates of every query anew."""
        retriever, top_k, depth = need
        config, queries = _reranker(context, retriever), context.artifact(QUERIES_KEY).table()
        workspace = context.workspace(retriever, run_key(context.experiment, retriever, top_k))
        ranking, lists = self._candidates(context, retriever, top_k, queries)
        new = config.rerank(lists, workspace)
        failures = {**ranking.failures, **new.failures}
        table = reordered(ranking.table, lists, new.scores, failures, depth)
        facts = {UNANSWERED: len(new.failures)} if new.failures else {}
        return Ranked(table, failures, facts, _served(context, retriever, new, self.name))

    def searcher(
        self, context: StageContext, need: Need, query_ids: Sequence[str]
    ) -> Search | None:
        """Return the reranking of one query's candidates past what is kept of it.

        Scores that are known take no time, and say nothing of what a new query takes.
        """
        retriever, top_k, _ = need
        config, queries = _reranker(context, retriever), context.artifact(QUERIES_KEY).table()
        few = queries.filter(pc.is_in(queries["query_id"], pa.array(query_ids, pa.string())))
        lists = {c.query_id: c for c in self._candidates(context, retriever, top_k, few)[1]}
        # A bar for each query, or the way to a cluster, would be most of what is timed.
        workspace = replace(context.workspace(retriever), progress=no_progress, compute=LOCAL)
        first = next(iter(lists.values()), None)
        try:
            if first is None or not config.rerank_now(first, workspace):
                return None
        except ModelUnavailable:
            return None  # known scores need no model, and no time fails an evaluation
        return lambda name: name in lists and config.rerank_now(lists[name], workspace)

    def _candidates(
        self, context: StageContext, retriever: str, top_k: int, queries: pa.Table
    ) -> tuple[Ranked, list[Candidates]]:
        """Return what the input, or every chunk, is to some queries, as a ranking and as lists."""
        if _reranker(context, retriever).scores_all:
            all_pairs(context, retriever)  # refuses too many
            keys = map(chunks_key, context.experiment.chunkings_of(retriever))
            tables = [context.artifact(key).table(UNIT_COLUMNS) for key in keys]
            chunks = pa.concat_tables(tables).sort_by("chunk_id").combine_chunks()
            ranked = Ranked(complete_ranking(queries, chunks, context.experiment.judge))
        else:
            (read,) = self.input_rankings(context, retriever, top_k)
            of_queries = pc.is_in(read.table["query_id"], queries["query_id"].combine_chunks())
            ranked = Ranked(read.table.filter(of_queries), read.failures)
        texts = texts_by_chunk(context, retriever)
        return ranked, candidate_lists(ranked.table, queries, texts)

    def step_timed_once(self, context: StageContext, retriever: str, top_k: int) -> str | None:
        """Return the reranker and the queries: which candidates they get changes no time.

        So another setting of what it reads loads no model just to time it again.
        """
        if _reranker(context, retriever).scores_all:
            return None  # their number is that of the corpus
        key = run_key(context.experiment, retriever, top_k)
        config, versions = self.ranking_config(context, key), self.versions(context, key)
        queries = context.artifact(QUERIES_KEY).manifest.digests
        return fingerprint([config, versions, queries])

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        pairs = all_pairs(context, key["retriever"])
        line = retriever_line(context.experiment, key["retriever"])
        requests = (_counted(context, key, line),) if line is not None else ()
        return ExpectedWork(None if pairs is None else {PAIRS: pairs}, requests)


class SecondRerankedRuns(RerankedRuns):
    """Runs of a reranker that reads a reranker, or a fusion of one."""

    name = "second_reranked_runs"
    family = SECOND_FAMILY


def _reranker(context: StageContext, retriever: str) -> RerankedRetriever:
    return RerankedRetriever.lookup(retriever, context.experiment.retrievers)


def _counted(context: StageContext, key: ArtifactKey, line: Outgoing) -> Outgoing:
    """Return what a reranking server is asked for one ranking, as far as it is known."""
    experiment, name = context.experiment, key["retriever"]
    config, queries = _reranker(context, name), context.current(QUERIES_KEY)
    if queries is None or config.scores_all:
        return line
    n_candidates = key["top_k"] if config.candidates == "top_k" else config.candidates
    depth, n_queries = depth_at_most(context, name, int(n_candidates)), queries.manifest.rows
    sizes_sent = config.passages_by_request(depth)
    requests, passages = n_queries * len(sizes_sent), n_queries * sum(sizes_sent)
    line = replace(line, questions=n_queries, requests=requests, passages=passages)
    # What a search with chunks of its own returns is known when it was asked.
    is_known = not experiment.located_of(name)
    chunks = current_chunk_texts(context, experiment.chunkings_of(name)) if is_known else None
    if chunks is None:
        return line
    sizes = sorted((len(text.encode()) for text in chunks), reverse=True)
    query_bytes = sum(len(text.encode()) for text in queries.table()["text"].to_pylist())
    tokens, cost = config.tokens_at_most(n_queries, query_bytes, sizes, depth)
    return replace(line, tokens=tokens, cost=cost)


def _served(context: StageContext, retriever: str, new: Reranked, asset: str) -> Part | None:
    """Return what a server takes to rerank, with what was measured of other queries before."""
    if new.seconds is None:
        return None
    config = _reranker(context, retriever)
    identity = fingerprint([config.described(), config.describe()])
    earlier = kept_part(context, RERANK, identity) or Part({}, None)
    times = {query_id: 1000 * seconds for query_id, seconds in new.seconds.items()}
    part = Part({**earlier.times, **times}, earlier.cost if new.cost is None else new.cost)
    keep_part(context, RERANK, identity, part, asset=asset, retriever=retriever)
    return part


def all_pairs(context: StageContext, retriever: str) -> int | None:
    """Return how many pairs of a query and a chunk a reranker of all chunks scores.

    None where candidates are chosen, or where queries or chunks are not up to date.

    Raises:
        UsageError: they are more than its ``max_pairs``.
    """
    config, names = _reranker(context, retriever), context.experiment.chunkings_of(retriever)
    tables = [context.current(key) for key in (QUERIES_KEY, *map(chunks_key, names))]
    rows = [table.manifest.rows for table in tables if table is not None]
    if not config.scores_all or len(rows) < len(tables):
        return None
    queries, chunks = rows[0], sum(rows[1:])
    if queries * chunks > config.max_pairs:
        raise UsageError(
            f"retrievers.{retriever}: `candidates: all` is {queries:,} queries x {chunks:,} chunks "
            f"= {queries * chunks:,} pairs; max_pairs allows {config.max_pairs:,}"
        )
    return queries * chunks


def texts_by_chunk(context: StageContext, retriever: str) -> dict[str, str]:
    """Return chunk id -> what is indexed of it, for all chunks that the candidates can be."""
    texts: dict[str, str] = {}
    for name in context.experiment.chunkings_of(retriever):
        chunks = context.artifact(chunks_key(name)).table()
        indexed = texts_to_index(context.experiment, name, chunks).to_pylist()
        texts.update(zip(chunks.column("chunk_id").to_pylist(), indexed, strict=True))
    for name in context.experiment.located_of(retriever):
        units = chunks_of(context.artifact(hits_key(name)))
        ids = units.column("chunk_id").to_pylist()
        texts.update(zip(ids, indexed_texts(units).to_pylist(), strict=True))
    return texts


def text_inputs(experiment: Experiment, key: ArtifactKey) -> list[Input]:
    """Return the texts that a cell of a reranker reads; the cell of its input tells of them."""
    (before,) = experiment.retrievers[key["retriever"]].input_names
    edge = run_key(experiment, before, key["top_k"])
    tables = enumerate(chunk_keys(experiment, key["retriever"]))
    return [Input(f"chunks_{number}", table, "indexed", edge=edge) for number, table in tables]


def indexed_of(experiment: Experiment, key: ArtifactKey) -> list[str]:
    """Return which texts of the chunks a reranker reads, for the recipe of a cell."""
    return [indexed_fields(experiment, name) for name in experiment.chunkings_of(key["retriever"])]
