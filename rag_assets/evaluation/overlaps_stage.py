"""``overlaps[top_k]``: how alike the retrievers rank, for an experiment without labels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.engine.failures import failures_of
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.overlap import PERSISTENCE, Pair, overlaps, pairs
from rag_assets.experiment.experiment import Experiment
from rag_assets.package_versions import version
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import OVERLAPS
from rag_assets.store.artifacts import ArtifactKey


class Overlaps(Stage):
    """One partition a top_k, over those of its cells that are up to date.

    It exists only without labels: with them the metrics answer the question that it can only
    hint at, and an experiment that has labels pays nothing for it. One retriever has no pair.
    """

    name = "overlaps"
    dimensions: ClassVar[tuple[str, ...]] = ("top_k",)
    schema = OVERLAPS
    row = "Two retrievers at one top_k: the share of common units, and rank-biased overlap."
    group = "metrics"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        if experiment.has_qrels or len(experiment.retrievers) < 2:
            return []
        return [overlaps_key(top_k) for top_k in experiment.top_k]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input(f"run_of_{name}", run_key(experiment, name, key["top_k"]), optional=True)
            for name in experiment.retrievers
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"p": PERSISTENCE, "pairs": [list(pair) for pair in _pairs(context.experiment)]}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return {"duckdb": version("duckdb"), "numpy": version("numpy")}

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        experiment = context.experiment
        for key in keys:
            runs, failed = dict[str, pa.Table](), dict[str, Collection[str]]()
            for name in experiment.retrievers:
                artifact = context.current(run_key(experiment, name, key["top_k"]))
                if artifact is not None:
                    runs[name], failed[name] = artifact.table(), failures_of(artifact.manifest)
            wanted = [p for p in _pairs(experiment) if p.first in runs and p.second in runs]
            yield key, TableProduct(overlaps(runs, wanted, failed))


def _pairs(experiment: Experiment) -> list[Pair]:
    if experiment.judge != "evidence":
        # Documents, and given chunks, are the same units whatever is searched.
        return pairs({name: () for name in experiment.retrievers})
    return pairs({name: experiment.chunkings_of(name) for name in experiment.retrievers})


def overlaps_key(top_k: int | str) -> ArtifactKey:
    """Return the overlaps at one cut-off."""
    return ArtifactKey.of("overlaps", top_k=top_k)
