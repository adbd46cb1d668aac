"""``dev_judgments``: the labels by which the weights of a fusion may be chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.judgments_stage import judgments_key
from rag_assets.evaluation.query_facts import DEV
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.schemas import JUDGMENTS
from rag_assets.store.artifacts import ArtifactKey


class DevJudgments(Stage):
    """One partition a tuned fusion: a label of a test query does not come further than here."""

    name = "dev_judgments"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = JUDGMENTS
    row = "One unit of this retriever that satisfies one evidence of a query of the dev split."
    group = "chunks"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [dev_judgments_key(name) for name in experiment.tuned_fusions]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("judgments", judgments_key(key["retriever"])),
            Input("query_facts", QUERY_FACTS_KEY, "means"),
        ]

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        dev = pa.array(list(dev_weights(context)), pa.string())
        for key in keys:
            table = context.artifact(judgments_key(key["retriever"])).table()
            yield key, TableProduct(table.filter(pc.is_in(table["query_id"], value_set=dev)))


def dev_weights(context: StageContext) -> dict[str, float]:
    """Return query id -> weight, of the queries of the dev split."""
    facts = context.artifact(QUERY_FACTS_KEY).table()
    dev = facts.filter(pc.equal(facts["split"], DEV))
    return dict(zip(dev["query_id"].to_pylist(), dev["weight"].to_pylist(), strict=True))


def dev_judgments_key(retriever: str) -> ArtifactKey:
    """Return the labels by which a fusion's weights are chosen."""
    return ArtifactKey.of("dev_judgments", retriever=retriever)
