"""``fused_runs``: fusions of the stored rankings of other retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.latency_sample import Search
from rag_assets.pipeline.rankings import Ranked
from rag_assets.pipeline.stages.derived_runs import DerivedRuns, derived
from rag_assets.retrievers.derived import FusedRetriever

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


class FusedRuns(DerivedRuns):
    """One partition a fused retriever and top_k; a query fails where one of its inputs failed."""

    name = "fused_runs"
    family = "fused"
    code_version = "2"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.pipeline.stages.derived_runs",
        "rag_assets.pipeline.stages.runs",
        "rag_assets.evaluation.units",
    )

    def rank(self, pipeline: Pipeline, retriever: str, top_k: int, depth: int) -> Ranked:
        """Fuse the inputs' rankings."""
        rankings = self.input_rankings(pipeline, retriever, top_k)
        candidates = self.candidates(pipeline.experiment, retriever, top_k)
        tables = [ranking.table for ranking in rankings]
        failures = {q: why for ranking in rankings for q, why in ranking.failures.items()}
        config = _config(pipeline.experiment, retriever)
        return Ranked(config.fuse(tables, candidates=candidates, depth=depth), failures)

    def searcher(
        self, pipeline: Pipeline, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
    ) -> Search:
        """Return the fusion of one query's candidates."""
        candidates = self.candidates(pipeline.experiment, retriever, top_k)
        read = self.rankings_by_query(pipeline, retriever, top_k, query_ids)
        config = _config(pipeline.experiment, retriever)
        return lambda one: config.fuse(read[one], candidates=candidates, depth=depth)


def _config(experiment: Experiment, retriever: str) -> FusedRetriever:
    config = derived(experiment, retriever)
    if not isinstance(config, FusedRetriever):
        raise TypeError(f"{retriever} is not a fused retriever")
    return config
