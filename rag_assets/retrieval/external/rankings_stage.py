"""``external_rankings``: what searches that are not ours returned, as it came.

It is kept before anything is looked for in the documents: so an edited document asks nobody again
where a revision says what is searched.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from rag_assets.code_versions.closure import Root
from rag_assets.engine.failures import UNANSWERED
from rag_assets.engine.latency_sample import keep_part, percentiles, timed_queries
from rag_assets.engine.measurements import Percentiles
from rag_assets.engine.outgoing import NO_WORK, ExpectedWork, retriever_line
from rag_assets.engine.recipe import Input, Recipe
from rag_assets.engine.stage import Stage, TableProduct, retriever_code
from rag_assets.engine.stage_context import Part, StageContext, Times
from rag_assets.experiment.experiment import Experiment
from rag_assets.plain_text import shortened
from rag_assets.retrieval.base import ImportedRetriever
from rag_assets.retrieval.external.base import (
    ALWAYS,
    ExternalRetriever,
    Hit,
    QueryResult,
    RevisionFile,
    SearchSession,
)
from rag_assets.retrieval.external.called_code import require_allowed
from rag_assets.retrieval.external.query_embedding import QueryEmbedding
from rag_assets.retrieval.external.units import same_hits
from rag_assets.schemas import EXTERNAL_RANKINGS
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

SINGLE, ANSWER = "single", "answer"
"""Measurements: of a sample, one query at a time; of all queries, as many at once as is said."""

SAMPLE_SECONDS = 20.0
"""A sample of single queries ends when it took so long."""

ANSWERED, REVISION, ASKED_TWICE, DIFFERED = "answered", "revision", "asked_twice", "differed"
"""Facts: when a search was asked, at which revision; how many queries were asked twice, and of how
many the hits were others then."""

_DOCUMENTS = "documents"


class ExternalRankings(Stage):
    """One partition a search: what it returned, or the file in which that stands."""

    name = "external_rankings"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = EXTERNAL_RANKINGS
    row = "One hit of one query, as the search returned it: an id, a span or a text."
    group = "runs"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [rankings_key(name) for name in experiment.retrievers if experiment.locates(name)]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return retriever_code(experiment, key)

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("queries", QUERIES_KEY, "text"),
            Input(_DOCUMENTS, DOCUMENTS_KEY, "text"),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        config = context.experiment.retrievers[key["retriever"]]
        if not isinstance(config, ExternalRetriever):
            return config.described()
        named = config.files()  # that of the revision, and called source, count by what they say
        searched = [name for name in config.file_options if name in named]
        files = {name: context.file_digest(named[name]) for name in searched}
        return {
            **config.ranking_config(),
            **({"files": files} if files else {}),
            "k": config.k or context.experiment.depth(key["retriever"]),
            "search_revision": revision_of(context, config),
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        config = context.experiment.retrievers[key["retriever"]]
        if isinstance(config, ExternalRetriever):
            return config.versions()  # its files are in its revision
        return context.versions_of(key["retriever"])

    def recipe(self, context: StageContext, key: ArtifactKey) -> Recipe | None:
        """Return the recipe; documents count where no revision says what is searched."""
        found = super().recipe(context, key)
        config = context.experiment.retrievers[key["retriever"]]
        if found is None:
            return None
        if not isinstance(config, ExternalRetriever) or config.revision is not None:
            inputs = {role: one for role, one in found.inputs.items() if role != _DOCUMENTS}
            found = replace(found, inputs=inputs)
        return context.attempts.numbered(found)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        """Ask for all queries, and for a sample once more, one at a time."""
        config = context.experiment.retrievers[key["retriever"]]
        if isinstance(config, ExternalRetriever):
            return _asked(context, key, config)
        if not isinstance(config, ImportedRetriever):
            raise TypeError(f"{key['retriever']} is no search that is asked or read from a file")
        queries = context.artifact(QUERIES_KEY).table()
        hits = config.read_hits(queries)
        n_missing = queries.num_rows - len(hits)
        missing = [f"{n_missing} queries of the experiment have no rows in the file"]
        return _product(hits, {"notes": missing if n_missing else []})

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        line = retriever_line(context.experiment, key["retriever"])
        queries = context.current(QUERIES_KEY)
        if line is None:
            return NO_WORK
        line = replace(line, passages=0)
        if queries is not None:
            # Each query, and a sample of them once more.
            n_queries = queries.manifest.rows
            batch_size = getattr(context.experiment.retrievers[key["retriever"]], "batch_size", 1)
            sample = min(n_queries, context.experiment.config.measurements.latency_sample)
            requests = -(-n_queries // batch_size) + sample
            line = replace(line, questions=n_queries, requests=requests)
        return ExpectedWork(requests=(line,))


def _asked(context: StageContext, key: ArtifactKey, config: ExternalRetriever) -> TableProduct:
    if config.runs_code:
        require_allowed(context.experiment.source, allowed=context.allow_code)
    retriever = key["retriever"]
    k = config.k or context.experiment.depth(retriever)
    table = context.artifact(QUERIES_KEY).table()
    texts = dict(zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True))
    results = _answered_before(context, key, texts)
    new = {query_id: text for query_id, text in texts.items() if query_id not in results}
    started = datetime.now(UTC)
    with SearchSession(context.workspace(retriever, key)) as tools:
        before = time.perf_counter()
        with context.progress(f"ask {retriever}", len(new)) as advance:
            found = enumerate(config.search(list(new.items()), k, tools), 1)
            for query_id, (number, result) in zip(new, found, strict=True):
                results[query_id] = result
                advance(number)
        seconds = time.perf_counter() - before
        sample = [(one, texts[one]) for one in timed_queries(context) if not results[one].error]
        again, times = _one_at_a_time(config, sample, k, tools)
    failed = [one for one, result in again.items() if result.error]
    again = {one: result for one, result in again.items() if not result.error}
    differed = [one for one in again if not same_hits(again[one].hits, results[one].hits)]
    facts = {
        ANSWERED: started.isoformat(timespec="seconds"),
        REVISION: revision_of(context, config),
        ASKED_TWICE: len(again),
        DIFFERED: len(differed),
        "notes": [
            _believed(started, config, revision_of(context, config)),
            *_notes(results, k, len(again), differed, failed),
        ],
    }
    _keep_times(context, key, times, _together(config, results), seconds, len(new))
    return _product(results, facts)


def _answered_before(
    context: StageContext, key: ArtifactKey, query_ids: Collection[str]
) -> dict[str, QueryResult]:
    """Return the answers of the attempt before: a further one asks for what failed only."""
    recipe = context.recipe(key)
    before = context.attempts.before(recipe) if recipe is not None else None
    found = context.store.find(key.asset, before.fingerprint) if before is not None else None
    if found is None:
        return {}
    hits: dict[str, list[Hit]] = {
        one: [] for one in query_ids if one not in found.manifest.failures
    }
    columns = ("query_id", *Hit._fields)
    table = found.table()
    for query_id, *values in zip(*(table[name].to_pylist() for name in columns), strict=True):
        hits[query_id].append(Hit(*values))
    return {query_id: QueryResult(own) for query_id, own in hits.items()}


def _one_at_a_time(
    config: ExternalRetriever, sample: Sequence[tuple[str, str]], k: int, tools: SearchSession
) -> tuple[dict[str, QueryResult], dict[str, float]]:
    """Return query -> its second answer, and the milliseconds until it came, if it did not fail.

    They are the search's own where it measures them: what it waits for because of a rate limit is
    nothing that a user waits for. What is loaded at first use was loaded by the answers before.
    Where we embed the query, a user waits for that too.
    """
    embedding: QueryEmbedding | None = getattr(config, "embedding", None)
    if embedding is not None and sample:
        embedding.seconds(sample[0][1])  # loads the model where all vectors were known
    again: dict[str, QueryResult] = {}
    times: dict[str, float] = {}
    begun = time.perf_counter()
    for query in sample:
        before = time.perf_counter()
        (result,) = config.search([query], k, tools)
        after = time.perf_counter()
        again[query[0]] = result
        if result.error is None:
            took = after - before if result.seconds is None else result.seconds
            embedded = embedding.seconds(query[1]) if embedding is not None else 0.0
            times[query[0]] = 1000 * (took + embedded)
        if after - begun > SAMPLE_SECONDS:
            break
    return again, times


def _together(config: ExternalRetriever, results: Mapping[str, QueryResult]) -> Times:
    """Return what each query took as they were asked, several at once; not the first, cold ones."""
    warm = list(results.items())[config.concurrency :]
    return {
        query_id: 1000 * result.seconds
        for query_id, result in warm
        if result.seconds is not None and result.error is None
    }


def _keep_times(
    context: StageContext,
    key: ArtifactKey,
    single: Times,
    together: Times,
    seconds: float,
    n_queries: int,
) -> None:
    recipe, retriever = context.recipe(key), key["retriever"]
    if recipe is None:
        return
    name, part = recipe.fingerprint, Part(single, None)
    keep_part(context, SINGLE, name, part, asset=key.asset, retriever=retriever)
    told = percentiles(together) if together else Percentiles()
    context.measurements.add(
        ANSWER, name, seconds, n_queries, **told, asset=key.asset, retriever=retriever
    )


def _believed(asked: datetime, config: ExternalRetriever, revision: str | None) -> str:
    """Return since when answers are believed, and how long."""
    when = f"asked on {asked:%Y-%m-%d %H:%M} UTC"
    if config.revision == ALWAYS:
        return f"{when}; asked again in each evaluation"
    if revision is None:
        return f"{when}; believed until the code, the documents or the queries change"
    known = shortened(revision, 40)
    return f"{when} at revision {known}; believed until that or the queries change"


def _notes(
    results: Mapping[str, QueryResult],
    k: int,
    n_twice: int,
    differed: Sequence[str],
    failed: Sequence[str],
) -> Iterator[str]:
    if failed:
        yield f"{len(failed)} queries failed when they were asked again, such as '{failed[0]}'"
    if differed:
        yield (
            f"{len(differed)} of {n_twice} queries that were asked twice gave other hits, "
            f"or another order, the second time; the first is '{differed[0]}'"
        )
    lengths = {len(result.hits) for result in results.values() if not result.error}
    if len(results) > 1 and len(lengths) == 1 and 0 < max(lengths) < k:
        yield f"each query has {max(lengths)} hits, where {k} were asked for"


def _product(results: Mapping[str, QueryResult], facts: Mapping[str, Any]) -> TableProduct:
    rows: list[dict[str, object]] = []
    for query_id, result in sorted(results.items()):
        for rank, hit in enumerate(() if result.error else result.hits, 1):
            rows.append({"query_id": query_id, "rank": rank, **_storable(hit)})
    failures = {query_id: result.error for query_id, result in results.items() if result.error}
    unanswered = {UNANSWERED: len(failures)} if failures and ANSWERED in facts else {}
    return TableProduct(EXTERNAL_RANKINGS.from_rows(rows), {**facts, **unanswered}, failures)


def _storable(hit: Hit) -> dict[str, object]:
    """Return a hit whose texts are UTF-8: half a surrogate pair becomes a question mark."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in hit._asdict().items()
    }


def revision_of(context: StageContext, config: ExternalRetriever) -> str | None:
    """Return what is known of the state that a search is asked in; nobody is asked for it."""
    if config.asks_revision:
        return context.revisions.of(config.ranking_config())
    if isinstance(config.revision, RevisionFile):
        return context.file_digest(config.revision.file)
    return str(config.revision) if config.revision is not None else None


def rankings_key(retriever: str) -> ArtifactKey:
    """Return what a search returned."""
    return ArtifactKey.of("external_rankings", retriever=retriever)
