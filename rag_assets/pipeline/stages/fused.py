"""``fused_runs``: fusions of the stored rankings of other retrievers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rag_assets.experiment.config import RRFConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.fusion.rrf import reciprocal_rank_fusion
from rag_assets.pipeline.stage import Input, Recipe
from rag_assets.pipeline.stages.runs import RunsStage, run_key
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


class FusedRuns(RunsStage):
    """One partition a fused retriever and top_k; nothing is searched again."""

    name = "fused_runs"
    family = "fused"
    code_version = "1"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.fusion",
        "rag_assets.pipeline.stages.runs",
        "rag_assets.evaluation.units",
    )

    def __init__(self, families: Mapping[str, RunsStage]) -> None:
        """Know the stages that rank the inputs, by family."""
        self._families = families

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        """Return the inputs' cells at the same top_k; the fusion reads their rankings."""
        names = experiment.inputs(key["retriever"])
        return [
            Input(f"input_{number}", run_key(experiment, name, key["top_k"]))
            for number, name in enumerate(names)
        ]

    def ranking_config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        config = _config(pipeline.experiment, key["retriever"])
        chosen = config.model_dump(mode="json", exclude={"inputs"})
        if config.candidates == "top_k":
            chosen["candidates"] = int(key["top_k"])
        return {**chosen, "judge": pipeline.experiment.judge}

    def recipe(self, pipeline: Pipeline, key: ArtifactKey) -> Recipe | None:
        """Return what determines the cell: the inputs' rankings at the depth that is read."""
        experiment, top_k = pipeline.experiment, int(key["top_k"])
        candidates = self._candidates(experiment, key["retriever"], top_k)
        digests: dict[str, str] = {}
        for number, name in enumerate(experiment.inputs(key["retriever"])):
            stage = self._families[experiment.family(name)]
            digest = pipeline.rankings.digest(stage, name, top_k, candidates)
            if digest is None or pipeline.current(run_key(experiment, name, top_k)) is None:
                return None
            digests[f"input_{number}"] = digest
        config = self.config(pipeline, key)
        versions = self.versions(pipeline, key)
        return Recipe(self.name, self.code_version, config, digests, versions)

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        return {"duckdb": version("duckdb")}

    def depth(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        """Return the depth of the fusion: one of lists cut at top_k is as deep as its cell."""
        config = _config(experiment, retriever)
        return top_k if config.candidates == "top_k" else experiment.depth(retriever)

    def rank(self, pipeline: Pipeline, retriever: str, top_k: int, depth: int) -> pa.Table:
        experiment = pipeline.experiment
        candidates = self._candidates(experiment, retriever, top_k)
        rankings = [
            pipeline.rankings.table(
                self._families[experiment.family(name)], name, top_k, candidates
            ).table
            for name in experiment.inputs(retriever)
        ]
        k = _config(experiment, retriever).k
        return reciprocal_rank_fusion(rankings, k=k, candidates=candidates, depth=depth)

    def _candidates(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        candidates = _config(experiment, retriever).candidates
        return top_k if candidates == "top_k" else candidates


def _config(experiment: Experiment, retriever: str) -> RRFConfig:
    config = experiment.retrievers[retriever]
    if not isinstance(config, RRFConfig):
        raise TypeError(f"{retriever} is not a fused retriever")
    return config
