"""``external_hits``, ``external_units``, ``external_runs``: foreign chunks, judged as ours are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.chunking.stage import Chunks, chunks_key
from rag_assets.engine.latency_sample import kept_part
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import Ranked, StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.external.rankings_stage import SINGLE, rankings_key
from rag_assets.retrieval.external.units import located, notes, own_units, unit_run
from rag_assets.retrieval.runs_stage import RunsStage
from rag_assets.schemas import CHUNKS, EXTERNAL_HITS, RUNS
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import ArtifactKey

FAMILY = "external"


class ExternalHits(Stage):
    """One partition a search: its hits, located in the documents."""

    name = "external_hits"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = EXTERNAL_HITS
    row = "One hit of one query: the chunk or span that it is, and how that was found."
    group = "runs"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [hits_key(name) for name in experiment.retrievers if experiment.locates(name)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("rankings", rankings_key(key["retriever"])),
            Input("documents", DOCUMENTS_KEY, "text"),
            *_chunking_inputs(experiment, key["retriever"]),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"judge": context.experiment.judge}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        documents = context.artifact(DOCUMENTS_KEY).table()
        rankings = context.artifact(rankings_key(key["retriever"]))
        chunks = _chunks(context, key["retriever"])
        found = located(rankings.table(), documents, chunks, context.experiment.judge)
        facts = {"located": found.counts, "notes": list(notes(found.counts))}
        failures = {**rankings.manifest.failures, **found.failures}
        return TableProduct(found.table, facts, failures)


class ExternalUnits(Stage):
    """One partition a search: what of its hits is no chunk of a chunking."""

    name = "external_units"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    schema = CHUNKS
    row = "One chunk of a search's own that it returned: the span [start, end) of a document."
    group = "chunks"
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = Chunks.projections

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [units_key(name) for name in experiment.retrievers if experiment.locates(name)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("hits", hits_key(key["retriever"])),
            Input("documents", DOCUMENTS_KEY, "text"),
            *_chunking_inputs(experiment, key["retriever"]),
        ]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        documents = context.artifact(DOCUMENTS_KEY).table()
        hits = context.artifact(hits_key(key["retriever"])).table()
        units = own_units(hits, documents, _chunks(context, key["retriever"]))
        return TableProduct(units)


class ExternalRuns(RunsStage):
    """One partition a search and top_k, cut from what it returned."""

    name = "external_runs"
    family = FAMILY
    ends_known = False
    schema = RUNS

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("hits", hits_key(key["retriever"]))]

    def rank(self, context: StageContext, retriever: str, top_k: int, depth: int) -> Ranked:
        """Return what was located; single queries were timed when the search was asked."""
        answers = context.recipe(rankings_key(retriever))
        served = kept_part(context, SINGLE, answers.fingerprint) if answers else None
        return located_ranking(context, retriever)._replace(served=served)


def located_ranking(context: StageContext, retriever: str) -> Ranked:
    """Return the ranking of judged units of a retriever whose hits were located."""
    artifact = context.artifact(hits_key(retriever))
    table = unit_run(artifact.table(), context.experiment.judge)
    return Ranked(table, artifact.manifest.failures)


def hits_key(retriever: str) -> ArtifactKey:
    """Return the located hits of a search."""
    return ArtifactKey.of("external_hits", retriever=retriever)


def units_key(retriever: str) -> ArtifactKey:
    """Return the chunks of a search's own."""
    return ArtifactKey.of("external_units", retriever=retriever)


def chunk_keys(experiment: Experiment, retriever: str) -> list[ArtifactKey]:
    """Return the tables of all chunks that can be in a retriever's runs."""
    chunkings = [chunks_key(name) for name in experiment.chunkings_of(retriever)]
    return chunkings + [units_key(name) for name in experiment.located_of(retriever)]


def _chunking_inputs(experiment: Experiment, retriever: str) -> list[Input]:
    return [
        Input("chunks", chunks_key(name), "spans") for name in experiment.chunkings_of(retriever)
    ]


def _chunks(context: StageContext, retriever: str) -> pa.Table | None:
    names = context.experiment.chunkings_of(retriever)
    tables = [context.artifact(chunks_key(name)).table() for name in names]
    return tables[0] if tables else None
