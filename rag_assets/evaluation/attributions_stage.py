"""``attributions[retriever]``: where each evidence was found or lost, at the primary cut-off.

Its partitions are cells; only those at the cut-off of the primary metric exist. A partition
set without the dimension ``top_k`` could not be mapped exactly from those of the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.attribution import attributions
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import RunsStage, run_key
from rag_assets.schemas import ATTRIBUTIONS
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.parquet_files import read_parquet


class Attributions(Stage):
    """At which stage a retriever found or lost each evidence.

    The ranking that is looked at is the one from which the largest cell is cut. A retriever with
    ``candidates: top_k`` has a ranking a cell: there it is that of the primary cut-off.
    """

    name = "attributions"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = ATTRIBUTIONS
    row = "One evidence of a query: the stage at which this retriever found or lost it."
    group = "metrics"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)

    def __init__(self, rankers: Sequence[RunsStage]) -> None:
        self._rankings = RankingsRead(rankers)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.has_qrels else ()
        return [attributions_key(experiment, name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        retrievers = (key["retriever"], *experiment.inputs(key["retriever"]))
        return [
            Input("relevant_units", relevant_units_key(key["retriever"])),
            Input("qrels", QRELS_KEY),
            Input("documents", DOCUMENTS_KEY, "ids"),
            *[
                Input(f"run_{number}_{place}", run_key(experiment, name, top_k))
                for number, name in enumerate(retrievers)
                for place, top_k in enumerate(cutoffs_read(experiment))
            ],
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        """Return the cut-off, and the names of the inputs: they are in the table."""
        experiment, retriever = context.experiment, key["retriever"]
        return {
            "k": int(key["top_k"]),
            "family": experiment.retrievers[retriever].family,
            "inputs": list(experiment.inputs(retriever)),
            **({"all_units_known": False} if experiment.located_of(retriever) else {}),
        }

    def input_digests(
        self, context: StageContext, key: ArtifactKey
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the digests of labels and corpus, and of the rankings as deep as they are read."""
        missing = set()
        for item in self.inputs(context.experiment, key):
            artifact = context.current(item.key)
            if not item.role.startswith("run_"):
                yield item.role, artifact.manifest.digests[item.projection] if artifact else None
            elif artifact is None:
                missing.add(item.key["retriever"])
        read = self._rankings.digests(context, key["retriever"], int(key["top_k"]))
        for number, (name, digest) in enumerate(read):
            yield f"ranking_{number}", None if name in missing else digest

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        table = self._rankings.attributions(context, key["retriever"], int(key["top_k"]))
        return TableProduct(table)


class RankingsRead:
    """The rankings by which evidence is found or lost: a retriever's, and those of its inputs."""

    def __init__(self, rankers: Sequence[RunsStage]) -> None:
        self._rankers = {stage.family: stage for stage in rankers}

    def digests(
        self, context: StageContext, retriever: str, k: int
    ) -> Iterator[tuple[str, str | None]]:
        """Yield (retriever, digest) of each ranking; None: it is not there."""
        for name, top_k, depth in _looked_at(context.experiment, retriever, k):
            yield name, self._digest(context, name, top_k, depth)

    def attributions(self, context: StageContext, retriever: str, k: int) -> pa.Table:
        """Return where a retriever found or lost each evidence at a cut-off.

        Returns:
            Table of :data:`rag_assets.schemas.ATTRIBUTIONS`.
        """
        corpus = context.artifact(DOCUMENTS_KEY).file
        own, *inputs = _looked_at(context.experiment, retriever, k)
        return attributions(
            self._ranking(context, *own),
            context.artifact(relevant_units_key(retriever)).table(),
            context.artifact(QRELS_KEY).table(),
            read_parquet(corpus, ["document_id"]),
            k=k,
            family=context.experiment.retrievers[retriever].family,
            all_units_known=not context.experiment.located_of(retriever),
            inputs={item[0]: self._ranking(context, *item) for item in inputs},
        )

    def _digest(self, context: StageContext, name: str, top_k: int, depth: int) -> str | None:
        """Return the digest of a ranking; a ranking that is a cell may be gone, the cell is not."""
        if depth == top_k:
            artifact = context.current(run_key(context.experiment, name, top_k))
            return artifact.manifest.digests["all"] if artifact else None
        ranker = self._rankers[context.experiment.family(name)]
        return context.rankings.digest(ranker, name, top_k, depth)

    def _ranking(self, context: StageContext, name: str, top_k: int, depth: int) -> pa.Table:
        if depth == top_k:
            return context.artifact(run_key(context.experiment, name, top_k)).table()
        ranker = self._rankers[context.experiment.family(name)]
        return context.rankings.table(ranker, name, top_k, depth).table


def _looked_at(experiment: Experiment, name: str, k: int) -> list[tuple[str, int, int]]:
    """Return (retriever, top_k, depth) of the rankings that matter: its own, then its inputs'."""
    candidates = getattr(experiment.retrievers[name], "candidates", 0)
    if candidates == "top_k":
        return [(name, k, k), *[(name_of_input, k, k) for name_of_input in experiment.inputs(name)]]
    largest = max(experiment.top_k)
    itself = (name, largest, experiment.depth(name))
    return [itself, *[(one, largest, int(candidates)) for one in experiment.inputs(name)]]


def cutoffs_read(experiment: Experiment) -> tuple[int, ...]:
    """Return the cut-offs whose cells attributions read: the primary and the largest one."""
    return tuple(sorted({_primary_cutoff(experiment), max(experiment.top_k)}))


def attributions_key(experiment: Experiment, retriever: str) -> ArtifactKey:
    """Return the attributions of one retriever, at the cut-off of the primary metric."""
    top_k = _primary_cutoff(experiment)
    return ArtifactKey.of("attributions", retriever=retriever, top_k=top_k)


def _primary_cutoff(experiment: Experiment) -> int:
    return experiment.primary.cutoff or max(experiment.top_k)
