"""``judgments[retriever]``: the evidence, on the units of one retriever.

And ``dev_judgments``: the labels by which the weights of a fusion may be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.contexts import with_neighbours
from rag_assets.evaluation.judging import judgments
from rag_assets.evaluation.query_facts import DEV
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.units import item_spans
from rag_assets.experiment.experiment import Experiment
from rag_assets.package_versions import version
from rag_assets.retrieval.expansion import WindowExpansion
from rag_assets.schemas import JUDGMENTS
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey


class Judgments(Stage):
    """One partition a retriever."""

    name = "judgments"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = JUDGMENTS
    row = "One unit of this retriever that satisfies one evidence of a query."
    group = "chunks"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        names = experiment.retrievers if experiment.has_qrels else ()
        return [judgments_key(name) for name in names]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        chunkings = experiment.chunkings_of(key["retriever"])
        return [
            Input("qrels", QRELS_KEY),
            *[
                Input(f"chunks_{number}", chunks_key(name), "spans")
                for number, name in enumerate(chunkings)
            ],
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        expand = context.experiment.retrievers[key["retriever"]].neighbours
        expanded = {} if expand is None else {"expand": expand.model_dump(mode="json")}
        return {"judge": context.experiment.judge, **expanded}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return {"duckdb": version("duckdb")}

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        qrels = context.artifact(QRELS_KEY).table()
        for key in keys:
            chunkings = context.experiment.chunkings_of(key["retriever"])
            chunks = [context.artifact(chunks_key(name)).table() for name in chunkings]
            expand = context.experiment.retrievers[key["retriever"]].neighbours
            units = None if expand is None else _expanded(chunks, expand)
            table = judgments(qrels, pa.concat_tables(chunks), context.experiment.judge, units)
            yield key, TableProduct(table)


def _expanded(chunks: Sequence[pa.Table], expand: WindowExpansion) -> pa.Table:
    """Return the spans that are returned: neighbours are of the same chunking."""
    return pa.concat_tables(with_neighbours(item_spans(one), expand.chunks) for one in chunks)


def judgments_key(retriever: str) -> ArtifactKey:
    """Return the judgments of one retriever."""
    return ArtifactKey.of("judgments", retriever=retriever)


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
