"""``fused_runs``: fusions of the stored rankings of other retrievers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage_context import Ranked, Search, StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.derived import FusedRetriever
from rag_assets.retrieval.derived_runs_stage import DerivedRuns
from rag_assets.retrieval.fusion.tuning_stage import chosen_weights, tuning_key
from rag_assets.store.artifacts import ArtifactKey


class FusedRuns(DerivedRuns):
    """One partition a fused retriever and top_k; a query fails where one of its inputs failed."""

    name = "fused_runs"
    family = "fused"

    config_of_inputs: ClassVar[frozenset[str]] = frozenset({"weights"})

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        """Return the inputs' cells, and the tuning where weights are chosen."""
        retriever = key["retriever"]
        tuned = [tuning_key(experiment, retriever)] if experiment.tune(retriever) else []
        return [*super().inputs(experiment, key), *[Input("tuning", one) for one in tuned]]

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
        config = _config(context, retriever)
        return Ranked(config.fuse(tables, candidates=candidates, depth=depth), failures)

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
        config = _config(context, retriever)
        return lambda one: config.fuse(read[one], candidates=candidates, depth=depth)


class SecondFusedRuns(FusedRuns):
    """The same of fusions that read a reranked retriever."""

    name = "second_fused_runs"
    family = "second_fused"


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
