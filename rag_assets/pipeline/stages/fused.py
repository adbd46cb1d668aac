"""``fused_runs``: fusions of the stored rankings of other retrievers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.experiment.config import RRFConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.fusion.rrf import reciprocal_rank_fusion
from rag_assets.pipeline.latency_sample import Search, Times, known_times
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
        candidates = self._candidates(pipeline.experiment, retriever, top_k)
        rankings = self._rankings(pipeline, retriever, top_k)
        k = _config(pipeline.experiment, retriever).k
        return reciprocal_rank_fusion(rankings, k=k, candidates=candidates, depth=depth)

    def searcher(
        self, pipeline: Pipeline, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
    ) -> Search:
        """Return the fusion of one query's candidates."""
        candidates = self._candidates(pipeline.experiment, retriever, top_k)
        k = _config(pipeline.experiment, retriever).k
        wanted = pa.array(query_ids, pa.string())
        rankings = [
            table.filter(pc.is_in(table.column("query_id"), value_set=wanted))
            for table in self._rankings(pipeline, retriever, top_k)
        ]
        read = {
            one: [table.filter(pc.equal(table.column("query_id"), one)) for table in rankings]
            for one in query_ids
        }
        return lambda one: reciprocal_rank_fusion(
            read[one], k=k, candidates=candidates, depth=depth
        )

    def times_before(
        self, pipeline: Pipeline, retriever: str, top_k: int, *, cached: bool
    ) -> list[Times] | None:
        """Return the times of the inputs, which are searched one after the other."""
        found, any_cached = [], False
        for name in pipeline.experiment.inputs(retriever):
            stage = self._families[pipeline.experiment.family(name)]
            recipe = stage.ranking_recipe(pipeline, name, top_k)
            if recipe is None:
                return None
            times = known_times(pipeline, recipe.fingerprint, name, cached=True) if cached else None
            any_cached |= times is not None
            times = times or known_times(pipeline, recipe.fingerprint, name, cached=False)
            if times is None:
                return None
            found.append(times)
        return found if any_cached or not cached else None

    def _rankings(self, pipeline: Pipeline, retriever: str, top_k: int) -> list[pa.Table]:
        """Return the rankings of the inputs, as deep as they are read."""
        experiment = pipeline.experiment
        candidates = self._candidates(experiment, retriever, top_k)
        return [
            pipeline.rankings.table(
                self._families[experiment.family(name)], name, top_k, candidates
            ).table
            for name in experiment.inputs(retriever)
        ]

    def _candidates(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        candidates = _config(experiment, retriever).candidates
        return top_k if candidates == "top_k" else candidates


def _config(experiment: Experiment, retriever: str) -> RRFConfig:
    config = experiment.retrievers[retriever]
    if not isinstance(config, RRFConfig):
        raise TypeError(f"{retriever} is not a fused retriever")
    return config
