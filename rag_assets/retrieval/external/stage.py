"""Searches that are not ours: what they returned, as it came; then their chunks, judged as ours.

``external_rankings`` is kept before anything is looked for in the documents: so an edited document
asks nobody again where a revision says what is searched.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from rag_assets.answers.generators import Question
from rag_assets.answers.stage import own_work, session_of
from rag_assets.called.asked import ALWAYS
from rag_assets.called.code import require_allowed
from rag_assets.called.hits import Hit
from rag_assets.chunking.stage import chunks_key
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.latency_sample import BUDGET_SECONDS, keep_part, kept_part, timed_queries
from rag_assets.engine.outgoing import NO_WORK, ExpectedWork, retriever_line
from rag_assets.engine.recipe import UNANSWERED, Input, Recipe
from rag_assets.engine.stage import TableProduct
from rag_assets.engine.stage_context import Need, Part, Ranked, StageContext
from rag_assets.errors import DataError
from rag_assets.experiment.experiment import Experiment
from rag_assets.plain_text import shortened
from rag_assets.retrieval.external.base import (
    AnsweredRetriever,
    ExternalRetriever,
    ImportedRetriever,
    QueryEmbedding,
    QueryResult,
)
from rag_assets.retrieval.external.units import located, notes, unit_run
from rag_assets.retrieval.runs_stage import FamilyStage, RetrieverStage, RunsStage, hits_key
from rag_assets.schemas import EXTERNAL_HITS, EXTERNAL_RANKINGS, RUNS, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey

SINGLE, ANSWER = "single", "answer"
"""Measurements: of each query of a sample; of all queries, as many at once as is said."""

ANSWERED, REVISION = "answered", "revision"
"""Facts: when a search was asked, at which revision."""

FAMILY = "external"


class ExternalRankings(RetrieverStage):
    """The raw results of your own search for each query."""

    name = "external_rankings"
    family = FAMILY
    schema = EXTERNAL_RANKINGS
    row = "One hit of one query, as the search returned it: an id, a span or a text."
    group = "runs"

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        config, roots = experiment.retrievers[key["retriever"]], super().named_code(experiment, key)
        if isinstance(config, AnsweredRetriever):
            roots.append(root_of(type(experiment.generators[config.generator])))
        return roots

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        config = experiment.retrievers[key["retriever"]]
        is_read = isinstance(config, ExternalRetriever) and config.revision is None
        documents = Input("documents", DOCUMENTS_KEY, "text", is_read=is_read)
        return [Input("queries", QUERIES_KEY, "text"), documents]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        config = context.experiment.retrievers[key["retriever"]]
        if isinstance(config, AnsweredRetriever):
            generator = context.experiment.generators[config.generator]
            identity = config.asked(generator, context.revisions.of(generator))
            return {"type": config.type, "asked": dict(identity)}
        if not isinstance(config, ExternalRetriever):
            return config.described()
        named = config.files()  # a called source counts by what it says
        files = {n: context.file_digest(named[n]) for n in config.file_options if n in named}
        return {
            **config.asked_as(),
            **({"files": files} if files else {}),
            "k": config.k or context.experiment.depth(key["retriever"]),
            "search_revision": context.revisions.of(config),
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        config = context.experiment.retrievers[key["retriever"]]
        if isinstance(config, ExternalRetriever):
            return config.versions()  # its files are in its revision
        if isinstance(config, AnsweredRetriever):
            return {}
        return super().versions(context, key)

    def recipe(self, context: StageContext, key: ArtifactKey) -> Recipe | None:
        recipe = super().recipe(context, key)
        return context.attempts.numbered(recipe) if recipe is not None else None

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        config = context.experiment.retrievers[key["retriever"]]
        if isinstance(config, AnsweredRetriever):
            return _own_contexts(context, config)
        if not isinstance(config, ImportedRetriever):
            search = ExternalRetriever.lookup(key["retriever"], context.experiment.retrievers)
            return _ask(context, key, search)
        queries = context.artifact(QUERIES_KEY).table()
        results = config.read(queries)
        n_missing = queries.num_rows - len(results)
        missing = [f"queries of the experiment without rows in the file: {n_missing}"]
        return _product(results, {"notes": missing if n_missing else []})

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        config = context.experiment.retrievers[key["retriever"]]
        if isinstance(config, AnsweredRetriever):
            questions = _asked_alone(context) if context.current(QUERIES_KEY) else None
            return own_work(context, config.generator, questions, None)
        line = retriever_line(context.experiment, key["retriever"])
        if line is None:
            return NO_WORK
        queries = context.current(QUERIES_KEY)
        n = queries.manifest.rows if queries is not None else None
        return ExpectedWork(requests=(replace(line, passages=0, questions=n, requests=n),))


def _own_contexts(context: StageContext, config: AnsweredRetriever) -> TableProduct:
    """Return what a generator retrieves by itself; its answers are stored too."""
    generator, questions = context.experiment.generators[config.generator], _asked_alone(context)
    session = session_of(context, f"ask {config.generator}", generator)
    results = config.read(generator, questions, session)
    by_query = {one.query_id: result for one, result in zip(questions, results, strict=True)}
    facts = {ANSWERED: datetime.now(UTC).isoformat(timespec="seconds"), REVISION: session.revision}
    return _product(by_query, {**facts, "notes": session.notes})


def _asked_alone(context: StageContext) -> list[Question]:
    pairs = column_values(context.artifact(QUERIES_KEY).table(), "query_id", "text")
    return [Question(query_id, text, None) for query_id, text in pairs]


def _ask(context: StageContext, key: ArtifactKey, config: ExternalRetriever) -> TableProduct:
    if config.runs_code:
        require_allowed(context.experiment.source, allowed=context.allow_code)
    retriever, revision = key["retriever"], context.revisions.of(config)
    k = config.k or context.experiment.depth(retriever)
    texts = dict(column_values(context.artifact(QUERIES_KEY).table(), "query_id", "text"))
    results = _answered_before(context, key, texts)
    new = {query_id: text for query_id, text in texts.items() if query_id not in results}
    started = datetime.now(UTC)
    with config.opened(context.workspace(retriever, key)) as search:
        before = time.perf_counter()
        with context.progress(f"ask {retriever}", len(new)) as advance:
            answers = enumerate(search(list(new.values()), k), 1)
            for query_id, (number, result) in zip(new, answers, strict=True):
                results[query_id] = result
                advance(number)
        seconds = time.perf_counter() - before
    if (recipe := context.recipe(key)) is not None:
        name, asset = recipe.fingerprint, key.asset
        part = Part(_times(context, config, texts, results), None)
        keep_part(context, SINGLE, name, part, asset=asset, retriever=retriever)
        context.measurements.add(ANSWER, name, seconds, len(new), asset=asset, retriever=retriever)
    notes = [_validity(started, config, revision)]
    lengths = {len(result.hits) for result in results.values() if not result.error}
    if len(results) > 1 and len(lengths) == 1 and 0 < max(lengths) < k:
        notes.append(f"each query has {max(lengths)} of the {k} hits that were asked for")
    facts = {ANSWERED: started.isoformat(timespec="seconds"), REVISION: revision, "notes": notes}
    return _product(results, facts)


def _answered_before(
    context: StageContext, key: ArtifactKey, query_ids: Collection[str]
) -> dict[str, QueryResult]:
    """Return the answers of the attempt before: a further one asks for what failed only."""
    recipe = context.recipe(key)
    before = context.attempts.before(recipe) if recipe is not None else None
    stored = context.store.find(key.asset, before.fingerprint) if before is not None else None
    if stored is None:
        return {}
    failures = {*stored.manifest.failures, *_not_located(context, stored)}
    hits: dict[str, list[Hit]] = {name: [] for name in query_ids}
    for query_id, *values in column_values(stored.table(), "query_id", *Hit._fields):
        hits[query_id].append(Hit(*values))
    return {name: QueryResult(of_query) for name, of_query in hits.items() if name not in failures}


def _not_located(context: StageContext, rankings: Artifact) -> Iterator[str]:
    """Yield the queries whose hits, in the documents as they are, named what does not exist."""
    documents = context.artifact(DOCUMENTS_KEY).manifest.digests["text"]
    read = {"rankings": rankings.manifest.digests["all"], "documents": documents}
    for name in context.store.names(EXTERNAL_HITS.name):
        hits = context.store.read(context.store.objects / EXTERNAL_HITS.name / name)
        if hits is not None and read.items() <= hits.manifest.inputs.items():
            yield from hits.manifest.failures


def _times(
    context: StageContext,
    config: ExternalRetriever,
    texts: Mapping[str, str],
    results: Mapping[str, QueryResult],
) -> dict[str, float]:
    """Return the milliseconds until the answer for the queries of the sample that were asked now.

    They are the search's own: what is waited because of a rate limit is nothing that a user waits
    for. Where we embed the query, a user waits for that too.
    """
    embedding: QueryEmbedding | None = getattr(config, "embedding", None)
    times: dict[str, float] = {}
    sample = [name for name in timed_queries(context) if results[name].seconds is not None]
    if embedding is not None and sample:
        embedding.seconds(texts[sample[0]])  # loads it where all vectors were known
    begun = time.perf_counter()
    for name in sample:
        times[name] = 1000 * (results[name].seconds or 0.0)
        times[name] += 1000 * embedding.seconds(texts[name]) if embedding is not None else 0.0
        if time.perf_counter() - begun > BUDGET_SECONDS:
            break
    return times


def _validity(asked: datetime, config: ExternalRetriever, revision: str | None) -> str:
    """Return since when answers are believed, and how long."""
    when = f"asked on {asked:%Y-%m-%d %H:%M} UTC"
    if config.revision == ALWAYS:
        return f"{when}; asked again in each evaluation"
    if revision is None:
        return f"{when}; reused until the code, the documents or the queries change"
    return f"{when} at revision {shortened(revision, 40)}; reused until that or the queries change"


def _product(results: Mapping[str, QueryResult], facts: Mapping[str, Any]) -> TableProduct:
    rows: list[dict[str, object]] = [
        {"query_id": query_id, "rank": rank, **hit._asdict()}
        for query_id, result in sorted(results.items())
        for rank, hit in enumerate(() if result.error else result.hits, 1)
    ]
    failures = {query_id: result.error for query_id, result in results.items() if result.error}
    unanswered = {UNANSWERED: len(failures)} if failures and ANSWERED in facts else {}
    return TableProduct(EXTERNAL_RANKINGS.from_rows(rows), {**facts, **unanswered}, failures)


class ExternalHits(FamilyStage):
    """The hits of your own search, located in the documents."""

    name = "external_hits"
    family = FAMILY
    schema = EXTERNAL_HITS
    row = "One hit of one query: the chunk or span that it is, and how that was found."
    group = "runs"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "indexed": ("chunk_id", "title", "text"),
        "spans": ("chunk_id", "document_id", "start", "end"),
        "units": ("chunk_id", "document_id", "start", "end", "title", "text"),
    }

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        rankings = Input("rankings", rankings_key(key["retriever"]))
        chunkings = experiment.chunkings_of(key["retriever"])
        chunks = [Input("chunks", chunks_key(name), "spans") for name in chunkings]
        return [rankings, Input("documents", DOCUMENTS_KEY, "text"), *chunks]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        # Whether it can return chunks of its own.
        chunks = {} if context.experiment.locates(key["retriever"]) else {"own": False}
        return {"judge": context.experiment.judge, **chunks}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, retriever = context.experiment, key["retriever"]
        rankings, *places = (context.artifact(item.key) for item in self.inputs(experiment, key))
        tables = (artifact.table() for artifact in (rankings, *places))
        is_own = experiment.locates(retriever)
        table, failures = located(*tables, judge=experiment.judge, has_own=is_own)
        for query_id, problem in () if is_own else failures.items():
            file = next(iter(experiment.retrievers[retriever].files().values()), None)
            raise DataError(f"query '{query_id}': {problem}", file=file)
        counts = Counter(table.column("located").to_pylist())
        facts: dict[str, Any] = {"located": dict(counts), "notes": list(notes(counts))}
        if failures and isinstance(experiment.retrievers[retriever], ExternalRetriever):
            facts[UNANSWERED] = len(failures)  # the search may know better when it is asked again
        return TableProduct(table, facts, {**rankings.manifest.failures, **failures})


class ExternalRuns(RunsStage):
    """Runs of your own search: the top_k results of each query."""

    name = "external_runs"
    family = FAMILY
    ends_known = False
    schema = RUNS

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("hits", hits_key(key["retriever"]))]

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return {}  # it was asked before

    def rank(self, context: StageContext, need: Need) -> Ranked:
        answers = context.recipe(rankings_key(need.retriever))
        served = kept_part(context, SINGLE, answers.fingerprint) if answers else None
        hits = context.artifact(hits_key(need.retriever))
        table = unit_run(hits.table(), context.experiment.judge)
        return Ranked(table, hits.manifest.failures, served=served)


def rankings_key(retriever: str) -> ArtifactKey:
    """Return what a search returned."""
    return ArtifactKey.of("external_rankings", retriever=retriever)
