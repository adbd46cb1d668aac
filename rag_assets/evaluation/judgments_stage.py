"""``judgments[retriever]``: the evidence, on the units of one retriever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.judging import judgments
from rag_assets.evaluation.units import item_spans
from rag_assets.evaluation.windows import with_neighbours
from rag_assets.experiment.experiment import Experiment
from rag_assets.package_versions import version
from rag_assets.retrieval.retriever import WindowExpansion
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
