"""``relevant_units[retriever]``: the evidence, on the units of one retriever.

The labels stay as they are; only this table depends on the chunking. So R, the number of evidences
of a query, and the highest grade of each are the same under every chunking, and an evidence that
no chunk satisfies stays in R. Of them ``dev_relevant_units`` are those by which the weights of a
fusion may be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.stage import Chunks
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import DuckDBStage, Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.query_facts import DEV
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.units import unit_spans, with_neighbours
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.external.units import chunks_of
from rag_assets.retrieval.runs_stage import chunk_keys
from rag_assets.schemas import RELEVANT_UNITS, column_values
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.sql_paths import scratch_connection

_UNITS = {
    # A document satisfies every evidence that lies in it.
    "document": """
        SELECT q.query_id, q.evidence_id, q.document_id AS unit_id, q.grade
        FROM qrels q JOIN (SELECT DISTINCT document_id FROM chunks) USING (document_id)
    """,
    # The judged ids are the ids of the chunks themselves.
    "chunk": """
        SELECT q.query_id, q.evidence_id, c.chunk_id AS unit_id, q.grade
        FROM qrels q JOIN chunks c ON c.chunk_id = q.document_id
    """,
    # A unit, the chunk or its parent, satisfies an evidence when it holds at least half of it, or
    # when at least half of the unit lies inside it; without a span it is the whole document.
    "evidence": """
        SELECT query_id, evidence_id, unit_id, grade FROM (
            SELECT q.query_id, q.evidence_id, c.unit_id, q.grade,
                   q.start IS NULL AS whole_document,
                   least(c."end", q."end") - greatest(c.start, q.start) AS shared,
                   q."end" - q.start AS evidence_length,
                   c."end" - c.start AS unit_length
            FROM qrels q JOIN units c USING (document_id)
        )
        WHERE whole_document
           OR (shared > 0 AND (2 * shared >= evidence_length OR 2 * shared >= unit_length))
    """,
}

_JUDGE = """
    WITH satisfied AS (
        SELECT query_id, evidence_id, unit_id, max(grade) AS grade
        FROM ({units}) GROUP BY ALL
    ), evidences AS (
        SELECT query_id, evidence_id, max(grade) AS grade FROM qrels GROUP BY ALL
    ), reached AS (
        SELECT query_id, evidence_id, max(grade) AS grade FROM satisfied GROUP BY ALL
    )
    SELECT query_id, evidence_id, unit_id, grade FROM satisfied
    UNION ALL
    SELECT query_id, evidence_id, NULL, e.grade
    FROM evidences e LEFT JOIN reached s USING (query_id, evidence_id)
    WHERE s.grade IS NULL OR s.grade < e.grade
    ORDER BY query_id, evidence_id, unit_id
"""

_NOT_IN_CORPUS = """
    SELECT query_id, count(*) FROM (
        SELECT query_id, evidence_id
        FROM qrels LEFT JOIN documents d USING (document_id) WHERE grade > 0
        GROUP BY ALL HAVING count(d.document_id) = 0
    ) GROUP BY ALL
"""


class RelevantUnits(DuckDBStage):
    """The units of a retriever that contain the labelled evidence."""

    name = "relevant_units"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    made_for = "judged_retrievers"
    schema = RELEVANT_UNITS
    row = "One unit of this retriever, and the evidence of a query that it satisfies."
    group = "chunks"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        tables = chunk_keys(experiment, key["retriever"])
        return [
            Input("qrels", QRELS_KEY),
            *[Input(f"chunks_{number}", table, "spans") for number, table in enumerate(tables)],
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        expand = context.experiment.retrievers[key["retriever"]].neighbours
        expanded = {} if expand is None else {"expand": expand.model_dump(mode="json")}
        return {"judge": context.experiment.judge, **expanded}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, name, units = context.experiment, key["retriever"], None
        qrels = context.artifact(QRELS_KEY).table()
        spans, keys = Chunks.projections["spans"], chunk_keys(experiment, name)
        chunks = [chunks_of(context.artifact(each), spans) for each in keys]
        expand = experiment.retrievers[name].neighbours
        if expand is not None:  # neighbours are of the same chunking
            expanded = (with_neighbours(unit_spans(table), expand.chunks) for table in chunks)
            units = pa.concat_tables(expanded)
        table = relevant_units(qrels, pa.concat_tables(chunks), experiment.judge, units)
        return TableProduct(table)


def relevant_units_key(retriever: str) -> ArtifactKey:
    """Return the relevant units of one retriever."""
    return ArtifactKey.of("relevant_units", retriever=retriever)


class DevRelevantUnits(Stage):
    """The relevant units of the dev split, by which fusion weights are tuned."""

    name = "dev_relevant_units"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)
    made_for = "tuned_fusions"
    schema = RELEVANT_UNITS
    row = "One unit of this retriever, and the evidence of a dev query that it satisfies."
    group = "chunks"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("relevant_units", relevant_units_key(key["retriever"])),
            Input("query_facts", QUERY_FACTS_KEY, "means"),
        ]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        dev = pa.array(list(dev_weights(context)), pa.string())
        table = context.artifact(relevant_units_key(key["retriever"])).table()
        return TableProduct(table.filter(pc.is_in(table["query_id"], value_set=dev)))


def dev_weights(context: StageContext) -> dict[str, float]:
    """Return query id -> weight, of the queries of the dev split."""
    facts = context.artifact(QUERY_FACTS_KEY).table()
    dev = facts.filter(pc.equal(facts["split"], DEV))
    return dict(column_values(dev, "query_id", "weight"))


def dev_relevant_units_key(retriever: str) -> ArtifactKey:
    """Return the labels by which a fusion's weights are chosen."""
    return ArtifactKey.of("dev_relevant_units", retriever=retriever)


def relevant_units(
    qrels: pa.Table, chunks: pa.Table, judge: str, units: pa.Table | None = None
) -> pa.Table:
    """Match evidence to units.

    A row for each unit and evidence that it satisfies, and one row without a unit, with the highest
    grade of all judgments, for each evidence that no unit satisfies with that grade.

    Args:
        qrels: the judgments.
        chunks: chunks of all chunkings that the retriever's runs can hold. Spans are judged on the
            parent of a chunk that has one.
        judge: ``document``, ``chunk`` or ``evidence``.
        units: the spans that are returned for the units, as of :func:`unit_spans`; None: their own.
    """
    with scratch_connection() as connection:
        connection.register("qrels", qrels)
        connection.register("chunks", chunks)
        if judge == "evidence":
            connection.register("units", unit_spans(chunks) if units is None else units)
        table = connection.sql(_JUDGE.format(units=_UNITS[judge])).to_arrow_table()
    return RELEVANT_UNITS.check(table.cast(RELEVANT_UNITS.arrow()))


def not_in_corpus(qrels: pa.Table, documents: pa.Table) -> dict[str, int]:
    """Return query -> how many of its positive evidences name no document of the corpus."""
    with scratch_connection() as connection:
        connection.register("qrels", qrels)
        connection.register("documents", documents.select(["document_id"]))
        return dict(connection.sql(_NOT_IN_CORPUS).fetchall())
