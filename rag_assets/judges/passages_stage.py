"""``judged_passages[retriever]``: which texts of a retriever judges look at.

It stands between runs and verdicts because Dagster maps cells of retriever x top_k to partitions of
one dimension only where that is one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.contexts import passages
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.contexts import context_column
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import JUDGED_PASSAGES
from rag_assets.store.artifacts import ArtifactKey

_PLACE = [(name, "ascending") for name in JUDGED_PASSAGES.key]


class JudgedPassages(Stage):
    """One partition a retriever; it reads all its runs, since a rank may depend on the cut-off."""

    name = "judged_passages"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = JUDGED_PASSAGES
    row = "One text that this retriever hands over for one query, as deep as any judge looks."
    group = "judges"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.judged_depth else ()
        return [judged_passages_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        runs = [
            Input(f"run_{k}", run_key(experiment, key["retriever"], k)) for k in experiment.top_k
        ]
        return [*runs, Input("contexts", retriever_contexts_key(key["retriever"]))]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"judge": context.experiment.judge, "depth": context.experiment.judged_depth}

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        depth, column = context.experiment.judged_depth, context_column(context.experiment.judge)
        for key in keys:
            contexts = context.artifact(retriever_contexts_key(key["retriever"])).table()
            tables = []
            for k in context.experiment.top_k:
                run = context.artifact(run_key(context.experiment, key["retriever"], k)).table()
                shallow = run.filter(pc.less_equal(run["rank"], depth))
                tables.append(passages(shallow, contexts, column))
            yield key, TableProduct(_with_best_ranks(pa.concat_tables(tables)))


def _with_best_ranks(table: pa.Table) -> pa.Table:
    """Return each text of a query once, at its best rank."""
    grouped = table.group_by([*JUDGED_PASSAGES.key, "text_digest"]).aggregate([("rank", "min")])
    named = grouped.rename_columns([*JUDGED_PASSAGES.key, "text_digest", "rank"])
    return JUDGED_PASSAGES.check(named).sort_by(_PLACE).combine_chunks()


def judged_passages_key(retriever: str) -> ArtifactKey:
    """Return the texts of one retriever that are judged."""
    return ArtifactKey.of("judged_passages", retriever=retriever)
