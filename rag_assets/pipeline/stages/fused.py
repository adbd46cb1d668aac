"""``fused_runs``: fusions of the stored rankings of other retrievers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

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
        config = derived(pipeline.experiment, retriever)
        if not isinstance(config, FusedRetriever):
            raise TypeError(f"{retriever} is not a fused retriever")
        rankings = self.input_rankings(pipeline, retriever, top_k)
        candidates = self.candidates(pipeline.experiment, retriever, top_k)
        tables = [ranking.table for ranking in rankings]
        failures = {q: why for ranking in rankings for q, why in ranking.failures.items()}
        return Ranked(config.fuse(tables, candidates=candidates, depth=depth), failures)
