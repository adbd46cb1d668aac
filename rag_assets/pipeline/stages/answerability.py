"""``answerability[retriever]``: whether the best score tells queries that have no answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.answerability import Query, answerability
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stage import Input, Stage, TableProduct
from rag_assets.pipeline.stages.query_answers import answers_input, answers_of
from rag_assets.pipeline.stages.runs import run_key
from rag_assets.pipeline.stages.sources import QRELS_KEY
from rag_assets.schemas import ANSWERABILITY
from rag_assets.store.artifacts import Artifact, ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


class Answerability(Stage):
    """One partition a retriever, over those of its cells that are up to date.

    Its table has no row where all queries are answerable, which only the labels tell.
    """

    name = "answerability"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = ANSWERABILITY
    row = "One split of the queries: how well this retriever's best score tells unanswerable ones."
    group = "answerability"
    code_version = "1"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.evaluation.answerability",
        "rag_assets.pipeline.stages.query_answers",
    )

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.has_qrels else ()
        return [answerability_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        runs = [
            Input(f"top_k_{k}", run_key(experiment, key["retriever"], k), optional=True)
            for k in experiment.top_k
        ]
        return [*runs, Input("qrels", QRELS_KEY), answers_input()]

    def config(self, pipeline: Pipeline, key: ArtifactKey) -> Mapping[str, Any]:
        return {"top_k": pipeline.experiment.primary.cutoff}

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        qrels = pipeline.artifact(QRELS_KEY).table()
        positive = qrels.filter(pc.greater(qrels["grade"], 0))
        answerable = set(positive["query_id"].to_pylist())
        facts = answers_of(pipeline).select(["query_id", "split"]).to_pylist()
        for key in keys:
            run = _run(pipeline, key["retriever"])
            splits: dict[str, list[Query]] = {}
            if run is not None:
                best = _best_scores(run.table())
                for fact in facts:
                    name = fact["query_id"]
                    query = Query(best.get(name), name in answerable)
                    splits.setdefault(fact["split"], []).append(query)
            yield key, TableProduct(answerability(splits))


def _run(pipeline: Pipeline, retriever: str) -> Artifact | None:
    """Return the cell of the primary metric, else the deepest that is up to date.

    All hold the same first unit, unless a fusion reads lists that are cut at top_k.
    """
    experiment = pipeline.experiment
    primary = experiment.primary.cutoff
    for top_k in sorted(experiment.top_k, key=lambda k: (k == primary, k), reverse=True):
        artifact = pipeline.current(run_key(experiment, retriever, top_k))
        if artifact is not None:
            return artifact
    return None


def _best_scores(run: pa.Table) -> dict[str, float]:
    first = run.filter(pc.equal(run["rank"], 1))
    return dict(zip(first["query_id"].to_pylist(), first["score"].to_pylist(), strict=True))


def answerability_key(retriever: str) -> ArtifactKey:
    """Return the answerability of one retriever."""
    return ArtifactKey.of("answerability", retriever=retriever)
