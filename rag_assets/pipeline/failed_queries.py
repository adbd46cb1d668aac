"""Which retrievers failed on queries, and how what a server left unanswered is asked for again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rag_assets.called.asked import ALWAYS, AskedOptions
from rag_assets.engine.recipe import RANKINGS, UNANSWERED, Recipe
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.retrieval.external.base import ImportedRetriever
from rag_assets.retrieval.external.stage import ExternalHits, ExternalRankings
from rag_assets.retrieval.reranking.stage import RerankedRuns
from rag_assets.store.artifacts import ArtifactKey

ASKED_AGAIN = {ExternalHits.name: ExternalRankings.name}
"""What is asked again where another asset says what is open: hits name what does not exist."""


def failed_queries(pipeline: Pipeline) -> dict[str, set[str]]:
    """Return retriever -> the queries on which it failed, by its up-to-date runs; only if some."""
    failures: dict[str, set[str]] = {}
    for stage in pipeline.stages():
        for key in stage.keys(pipeline.experiment) if stage.group == "runs" else ():
            artifact = pipeline.current(key)
            if artifact is not None and artifact.manifest.failures:
                failures.setdefault(key["retriever"], set()).update(artifact.manifest.failures)
    return failures


def left_open(pipeline: Pipeline, asset: str) -> dict[str, int]:
    """Return answerer, or chunking, -> how many texts a server did not give; only if some.

    Another evaluation may have them; what a file lacks is a finding.
    """
    keys = STAGES[asset].keys(pipeline.experiment)
    current = {key.partition[0][1]: pipeline.current(key) for key in keys}
    open_in = {n: run.manifest.facts.get(UNANSWERED, 0) for n, run in current.items() if run}
    return {name: n_open for name, n_open in open_in.items() if n_open}


def unfinished(pipeline: Pipeline, retrievers: Iterable[str]) -> dict[str, set[str]]:
    """Return retriever -> the queries on which it failed in this evaluation.

    Those that an imported run names as failed are a finding, which no other evaluation changes.
    """
    failed, experiment = failed_queries(pipeline), pipeline.experiment
    failures = {}
    for name in retrievers:
        read = read_by(experiment, name)
        files = [n for n in read if isinstance(experiment.retrievers[n], ImportedRetriever)]
        imported = [failed.get(name, set()) for name in files]
        failures[name] = failed.get(name, set()).difference(*imported)
    return {name: queries for name, queries in failures.items() if queries}


def read_by(experiment: Experiment, retriever: str) -> list[str]:
    """Return a retriever, and all that it fuses or reranks."""
    inputs = experiment.inputs(retriever)
    return [retriever, *(name for source in inputs for name in read_by(experiment, source))]


def unanswered(pipeline: Pipeline) -> dict[ArtifactKey, int]:
    """Return the up-to-date partitions in which a server gave no answer, and for how many queries.

    Of a reranker with several cut-offs over one ranking, one partition stands for all.
    """
    return {key: n for key, _, n in _unanswered(pipeline)}


def try_again(pipeline: Pipeline) -> int:
    """Count a further attempt at all that is unanswered; return at how many queries."""
    partitions = list(_unanswered(pipeline))
    for recipe in {recipe.fingerprint: recipe for _, recipe, _ in partitions}.values():
        pipeline.attempts.add(recipe)
    pipeline.forget()
    return sum(n for _, _, n in partitions)


def _unanswered(pipeline: Pipeline) -> Iterator[tuple[ArtifactKey, Recipe, int]]:
    """Yield partitions, the recipe whose attempts are counted, and how many queries are open."""
    seen = set()
    for stage in pipeline.stages():
        for key in stage.keys(pipeline.experiment):
            artifact = pipeline.current(key)
            if artifact is not None and isinstance(stage, RerankedRuns):
                artifact = pipeline.store.find(RANKINGS, artifact.manifest.facts["ranking"])
            n_queries = artifact.manifest.facts.get(UNANSWERED, 0) if artifact is not None else 0
            asked = replace(key, asset=ASKED_AGAIN.get(key.asset, key.asset))
            recipe = pipeline.recipe(asked) if n_queries else None
            if recipe is not None and isinstance(stage, RerankedRuns):
                recipe = stage.ranking_recipe(pipeline, key["retriever"], int(key["top_k"]))
            if recipe is not None and (stage, recipe.fingerprint) not in seen:
                seen.add((stage, recipe.fingerprint))
                yield key, recipe, n_queries


def ask_revisions(pipeline: Pipeline, retrievers: Iterable[str]) -> None:
    """Note that what has ``revision: always`` is asked now.

    These are the searches behind some retrievers, and generators of the user's own.
    """
    experiment = pipeline.experiment
    names = {base for name in retrievers for base in read_by(experiment, name)}
    searches = (experiment.retrievers[name] for name in sorted(names))
    for options in (*searches, *experiment.generators.values()):
        if isinstance(options, AskedOptions) and options.revision == ALWAYS:
            pipeline.revisions.keep(options)
            pipeline.forget()
