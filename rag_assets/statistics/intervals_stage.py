"""``intervals[retriever]``: how far each mean would move on other queries of the same kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.metrics_stage import cells_read, metrics_key
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, counting_of, resampling_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.package_versions import version
from rag_assets.schemas import INTERVALS
from rag_assets.statistics.intervals import intervals
from rag_assets.store.artifacts import ArtifactKey


class Intervals(Stage):
    """One partition a retriever; over those of its cells that are up to date."""

    name = "intervals"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = INTERVALS
    row = "One mean of one retriever, with its interval."
    group = "statistics"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.has_qrels else ()
        return [intervals_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [*cells_read(experiment, key["retriever"]), COUNTING_INPUT]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return asdict(resampling_of(context.experiment))

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return {"numpy": version("numpy"), "scipy": version("scipy")}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        counting = counting_of(lambda key: context.artifact(key).table())
        cells = {}
        for top_k in experiment.top_k:
            artifact = context.current(metrics_key(key["retriever"], top_k))
            if artifact is not None:
                cells[top_k] = artifact.table()
        level = experiment.statistics.confidence
        return TableProduct(intervals(cells, counting, level))


def intervals_key(retriever: str) -> ArtifactKey:
    """Return the intervals of one retriever."""
    return ArtifactKey.of("intervals", retriever=retriever)
