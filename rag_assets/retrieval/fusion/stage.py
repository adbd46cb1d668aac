"""``fused_runs``: fusions of the stored rankings of other retrievers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.engine.recipe import Input, Recipe
from rag_assets.engine.stage_context import Ranked, Search, StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.options import MAX_DEPTH
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.fusion.tuning_stage import chosen_weights, tuning_key
from rag_assets.retrieval.recency import time_weighted_ranking
from rag_assets.retrieval.runs_stage import DerivedRuns
from rag_assets.retrieval.search_steps_stage import factors_of, step_inputs, with_own_steps
from rag_assets.store.artifacts import ArtifactKey


class FusedRuns(DerivedRuns):
    """Runs that combine the rankings of several retrievers."""

    name = "fused_runs"
    family = "fused"

    config_of_inputs: ClassVar[frozenset[str]] = frozenset({"weights"})

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        """Return the inputs' cells, the tuning where weights are chosen, and ages of documents."""
        retriever = key["retriever"]
        tuned = [tuning_key(experiment, retriever)] if experiment.tune(retriever) else []
        return [
            *super().inputs(experiment, key),
            *[Input("tuning", one) for one in tuned],
            *step_inputs(experiment, self.family),
        ]

    def recipe(self, context: StageContext, key: ArtifactKey) -> Recipe | None:
        """Return what determines the ranking: ages of documents only where it uses them."""
        found = super().recipe(context, key)
        return with_own_steps(context, key["retriever"], found) if found is not None else None

    def input_digests(
        self, context: StageContext, key: ArtifactKey
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the rankings' digests; of a tuning only what it chose counts, as configuration."""
        for role, digest in super().input_digests(context, key):
            if role != "tuning":
                yield role, digest
            elif digest is None:
                yield "", None

    def ranking_config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        """Return the options, with the weights that were chosen in place of those to choose."""
        config = dict(super().ranking_config(context, key))
        weights = _chosen(context, key["retriever"])
        if weights is not None:
            config["weights"] = list(weights)
        elif context.experiment.tune(key["retriever"]):
            del config["weights"]
        return config

    def rank(self, context: StageContext, retriever: str, top_k: int, depth: int) -> Ranked:
        """Fuse the inputs' rankings."""
        rankings = self.input_rankings(context, retriever, top_k)
        candidates = self.candidates(context.experiment, retriever, top_k)
        tables = [ranking.table for ranking in rankings]
        failures = {q: why for ranking in rankings for q, why in ranking.failures.items()}
        return Ranked(_fusion(context, retriever, candidates, depth)(tables), failures)

    def searcher(
        self,
        context: StageContext,
        retriever: str,
        top_k: int,
        depth: int,
        query_ids: Sequence[str],
    ) -> Search:
        """Return the fusion of one query's candidates."""
        candidates = self.candidates(context.experiment, retriever, top_k)
        read = self.rankings_by_query(context, retriever, top_k, query_ids)
        fused = _fusion(context, retriever, candidates, depth)
        return lambda one: fused(read[one])


class SecondFusedRuns(FusedRuns):
    """Runs of a fusion that reads a reranker."""

    name = "second_fused_runs"
    family = "second_fused"


def _fusion(
    context: StageContext, retriever: str, candidates: int, depth: int
) -> Callable[[Sequence[pa.Table]], pa.Table]:
    """Return what fuses rankings, by scores that fall with age where the retriever wants that."""
    config, factors = _config(context, retriever), factors_of(context, retriever)

    def fused(rankings: Sequence[pa.Table]) -> pa.Table:
        if factors is None:
            return config.fuse(rankings, candidates=candidates, depth=depth)
        complete = config.fuse(rankings, candidates=candidates, depth=MAX_DEPTH)
        return time_weighted_ranking(complete, factors, depth)

    return fused


def _config(context: StageContext, retriever: str) -> FusedRetriever:
    """Return the options of a fusion, with its chosen weights if they are tuned."""
    config = FusedRetriever.named(retriever, context.experiment.retrievers)
    weights = _chosen(context, retriever)
    return config if weights is None else config.weighted(weights)


def _chosen(context: StageContext, retriever: str) -> tuple[float, ...] | None:
    """Return the weights that were chosen; None: none are tuned, or not yet."""
    if context.experiment.tune(retriever) is None:
        return None
    artifact = context.current(tuning_key(context.experiment, retriever))
    return chosen_weights(artifact) if artifact else None
