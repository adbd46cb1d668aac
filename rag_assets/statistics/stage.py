"""``intervals`` and ``comparisons``: how far means would move, and how sure each difference is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.metrics_stage import PERTURBED, cells_read, current_cells, metrics_key
from rag_assets.evaluation.query_facts import NONE, with_shared_documents
from rag_assets.evaluation.query_facts_stage import COUNTING_INPUT, counting_of, resampling_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.schemas import COMPARISONS, INTERVALS
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.comparisons import all_pairs, comparisons
from rag_assets.statistics.intervals import intervals
from rag_assets.store.artifacts import ArtifactKey


class Intervals(Stage):
    """Confidence intervals of the means of a retriever."""

    name = "intervals"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    made_for = "judged_retrievers"
    schema = INTERVALS
    row = "One mean of one retriever, with its interval."
    group = "statistics"
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [*cells_read(experiment, key["retriever"]), COUNTING_INPUT]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return asdict(resampling_of(context.experiment))

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        counting = counting_of(lambda key: context.artifact(key).table())
        cells = current_cells(context, key["retriever"])
        return TableProduct(intervals(cells, counting, experiment.statistics.confidence))


COMPARISONS_KEY = ArtifactKey.of("comparisons")

SHARED = "shared_documents"
"""Key of the configuration: whether queries that share documents are tested together."""


class Comparisons(Stage):
    """Paired tests of all pairs of retrievers on the primary metric.

    They are one family of tests, so there is one partition; one retriever has no pair. One that
    searches perturbed queries is compared with itself on those that were asked alone.
    """

    name = "comparisons"
    schema = COMPARISONS
    row = "Two retrievers by the primary metric: their difference, and whether it may be chance."
    group = "statistics"
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [COMPARISONS_KEY] if experiment.has_qrels and len(experiment.retrievers) > 1 else []

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        cutoff = experiment.primary.cutoff or 0
        cells = [
            Input(f"metrics_of_{name}", metrics_key(name, cutoff), optional=True)
            for name in experiment.retrievers
        ]
        shared = [Input("qrels", QRELS_KEY)] if experiment.statistics.cluster == NONE else []
        return [*cells, COUNTING_INPUT, *shared]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        return {
            "primary": str(experiment.primary),
            "retrievers": list(experiment.retrievers),
            **asdict(resampling_of(experiment)),
            SHARED: experiment.statistics.cluster == NONE,
            **({PERTURBED: experiment.perturbed} if experiment.perturbed else {}),
        }

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        counting = counting_of(lambda key: context.artifact(key).table())
        if experiment.statistics.cluster == NONE:
            counting = with_shared_documents(counting, context.artifact(QRELS_KEY).table())
        metric = experiment.primary.column, experiment.primary.cutoff or 0
        cells = {}
        for name in experiment.retrievers:
            artifact = context.current(metrics_key(name, metric[1]))
            if artifact is not None:
                cells[name] = artifact.table()
        pairs = all_pairs(list(cells), experiment.perturbed)
        return TableProduct(comparisons(cells, counting, metric, resampling_of(experiment), pairs))
