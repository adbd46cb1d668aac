"""What a server left unanswered in an evaluation, and how it is asked for again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rag_assets.engine.attempts import UNANSWERED
from rag_assets.engine.failures import failures_of
from rag_assets.engine.recipe import Recipe
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.stage import QuerySetAnswers
from rag_assets.retrieval.external.rankings_stage import ExternalRankings
from rag_assets.retrieval.reranking.stage import RerankedRuns
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


def unanswered(pipeline: Pipeline) -> dict[ArtifactKey, int]:
    """Return the up-to-date partitions in which a server gave no answer, and for how many queries.

    Of a reranker with several cut-offs over one ranking, one partition stands for all.
    """
    found: dict[ArtifactKey, int] = {}
    for stage in pipeline.stages():
        if not isinstance(stage, QuerySetAnswers | RerankedRuns | ExternalRankings):
            continue
        seen = set()
        for key in stage.keys(pipeline.experiment):
            recipe = _asked(pipeline, key)
            if recipe is not None and recipe.fingerprint not in seen:
                seen.add(recipe.fingerprint)
                number = _unanswered_in(pipeline, key)
                found |= {key: number} if number else {}
    return found


def try_again(pipeline: Pipeline) -> int:
    """Count a further attempt at all that is unanswered; return at how many queries."""
    found = unanswered(pipeline)
    recipes = [_asked(pipeline, key) for key in found]
    for recipe in recipes:
        if recipe is not None:
            pipeline.attempts.add(recipe)
    pipeline.forget()
    return sum(found.values())


def _asked(pipeline: Pipeline, key: ArtifactKey) -> Recipe | None:
    """Return the recipe whose attempts are counted: of a run, that of its ranking."""
    if pipeline.current(key) is None:
        return None
    stage = STAGES[key.asset]
    if isinstance(stage, RerankedRuns):
        return stage.ranking_recipe(pipeline, key["retriever"], int(key["top_k"]))
    return pipeline.recipe(key)


def _unanswered_in(pipeline: Pipeline, key: ArtifactKey) -> int:
    artifact = pipeline.artifact(key)
    if key.asset == QuerySetAnswers.name:
        table = artifact.table()
        without = table.filter(pc.is_null(table.column("text")))
        return int(pc.count_distinct(without.column("query_id")).as_py())
    if key.asset == ExternalRankings.name:
        return int(artifact.manifest.facts.get(UNANSWERED, 0))
    (name,) = pipeline.experiment.inputs(key["retriever"])
    before = pipeline.artifact(run_key(pipeline.experiment, name, key["top_k"]))
    return len(failures_of(artifact.manifest).keys() - failures_of(before.manifest).keys())
