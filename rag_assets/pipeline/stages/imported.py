"""``imported_runs``: rankings that were made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.rankings import Ranked
from rag_assets.pipeline.stage import Input, Stage, TableProduct
from rag_assets.pipeline.stages.chunks import chunks_key
from rag_assets.pipeline.stages.runs import RunsStage
from rag_assets.pipeline.stages.sources import QUERIES_KEY
from rag_assets.retrievers.imported import ImportedRetriever
from rag_assets.schemas import RUNS
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

FAMILY = "imported"


class ImportedRankings(Stage):
    """One partition an imported retriever: its file, read and checked against queries and units."""

    name = "imported_rankings"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = RUNS
    row = "One retrieved unit of one query, as the file has it."
    group = "runs"
    code_version = "1"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [rankings_key(name) for name in experiment.of_family(FAMILY)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunking = experiment.chunking_of(key["retriever"])
        return [
            Input("queries", QUERIES_KEY, "ids"),
            Input("chunks", chunks_key(chunking), "spans"),
        ]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        config = _config(pipeline.experiment, key["retriever"])
        return {**config.described(), "judge": pipeline.experiment.judge}

    def versions(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, str]:
        return pipeline.versions_of(key["retriever"])

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        queries = pipeline.artifact(QUERIES_KEY).table()
        for key in keys:
            chunking = pipeline.experiment.chunking_of(key["retriever"])
            chunks = pipeline.artifact(chunks_key(chunking)).table()
            config = _config(pipeline.experiment, key["retriever"])
            found = config.read(queries, chunks, judge=pipeline.experiment.judge)
            notes = [f"{key['retriever']}: {note}" for note in found.facts.get("notes", ())]
            yield key, TableProduct(found.table, {**found.facts, "notes": notes}, found.failures)


class ImportedRuns(RunsStage):
    """One partition an imported retriever and top_k, cut from what was read."""

    name = "imported_runs"
    family = FAMILY
    ends_known = False
    code_version = "2"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.evaluation.tied_at_cut",
        "rag_assets.evaluation.units",
        "rag_assets.pipeline.stages.runs",
    )

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("rankings", rankings_key(key["retriever"]))]

    def rank(self, pipeline: Pipeline, retriever: str, top_k: int, depth: int) -> Ranked:
        """Return what was read."""
        artifact = pipeline.artifact(rankings_key(retriever))
        return Ranked(artifact.table(), artifact.manifest.failures)


def rankings_key(retriever: str) -> ArtifactKey:
    """Return what was read for an imported retriever."""
    return ArtifactKey.of("imported_rankings", retriever=retriever)


def _config(experiment: Experiment, retriever: str) -> ImportedRetriever:
    config = experiment.retrievers[retriever]
    if not isinstance(config, ImportedRetriever):
        raise TypeError(f"{retriever} is not an imported retriever")
    return config
