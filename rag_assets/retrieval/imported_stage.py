"""``imported_runs``: rankings that were made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import TableProduct
from rag_assets.engine.stage_context import Ranked, StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.base import ImportedRetriever
from rag_assets.retrieval.external.stage import hits_key, located_ranking
from rag_assets.retrieval.runs_stage import FamilyStage, RunsStage
from rag_assets.schemas import RUNS
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

FAMILY = "imported"


class ImportedRankings(FamilyStage):
    """Rankings that were read from run files."""

    name = "imported_rankings"
    family = FAMILY
    schema = RUNS
    row = "One retrieved unit of one query, as the file has it."
    group = "runs"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [key for key in super().keys(experiment) if not experiment.locates(key["retriever"])]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunking = experiment.chunking_of(key["retriever"])
        return [
            Input("queries", QUERIES_KEY, "ids"),
            Input("chunks", chunks_key(chunking), "spans"),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        config = ImportedRetriever.named(key["retriever"], context.experiment.retrievers)
        return {**config.described(), "judge": context.experiment.judge}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        queries = context.artifact(QUERIES_KEY).table()
        chunking = context.experiment.chunking_of(key["retriever"])
        chunks = context.artifact(chunks_key(chunking)).table()
        config = ImportedRetriever.named(key["retriever"], context.experiment.retrievers)
        found = config.read(queries, chunks, judge=context.experiment.judge)
        return TableProduct(found.table, found.facts, found.failures)


class ImportedRuns(RunsStage):
    """Runs that were read from files: the top_k results of each query."""

    name = "imported_runs"
    family = FAMILY
    ends_known = False

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        name = key["retriever"]
        is_located = experiment.locates(name)
        return [Input("rankings", hits_key(name) if is_located else rankings_key(name))]

    def rank(self, context: StageContext, retriever: str, top_k: int, depth: int) -> Ranked:
        if context.experiment.locates(retriever):
            return located_ranking(context, retriever)
        artifact = context.artifact(rankings_key(retriever))
        return Ranked(artifact.table(), artifact.manifest.failures)


def rankings_key(retriever: str) -> ArtifactKey:
    """Return what was read for an imported retriever."""
    return ArtifactKey.of("imported_rankings", retriever=retriever)
