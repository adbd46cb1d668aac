"""Which units of a retriever satisfy which evidence.

The labels stay as they are; only this table depends on the chunking. So R, the number of evidences
of a query, and the highest grade of each are the same under every chunking, and an evidence that
no chunk satisfies stays in R.
"""

from __future__ import annotations

import pyarrow as pa

from rag_assets.evaluation.units import item_spans
from rag_assets.in_memory import in_memory
from rag_assets.schemas import JUDGMENTS

_UNITS = {
    # A document satisfies every evidence that lies in it.
    "document": """
        SELECT q.query_id, q.evidence_id, q.document_id AS item_id, q.grade
        FROM qrels q JOIN (SELECT DISTINCT document_id FROM chunks) USING (document_id)
    """,
    # The judged ids are the ids of the chunks themselves.
    "chunk": """
        SELECT q.query_id, q.evidence_id, c.chunk_id AS item_id, q.grade
        FROM qrels q JOIN chunks c ON c.chunk_id = q.document_id
    """,
    # A unit, the chunk or its parent, satisfies an evidence when it holds at least half of it, or
    # when at least half of the unit lies inside it; without a span it is the whole document.
    "evidence": """
        SELECT query_id, evidence_id, item_id, grade FROM (
            SELECT q.query_id, q.evidence_id, c.item_id, q.grade,
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
        SELECT query_id, evidence_id, item_id, max(grade) AS grade
        FROM ({units}) GROUP BY ALL
    ), evidences AS (
        SELECT query_id, evidence_id, max(grade) AS grade FROM qrels GROUP BY ALL
    ), reached AS (
        SELECT query_id, evidence_id, max(grade) AS grade FROM satisfied GROUP BY ALL
    )
    SELECT query_id, evidence_id, item_id, grade FROM satisfied
    UNION ALL
    SELECT query_id, evidence_id, NULL, e.grade
    FROM evidences e LEFT JOIN reached s USING (query_id, evidence_id)
    WHERE s.grade IS NULL OR s.grade < e.grade
    ORDER BY query_id, evidence_id, item_id
"""


def judgments(
    qrels: pa.Table, chunks: pa.Table, judge: str, units: pa.Table | None = None
) -> pa.Table:
    """Match evidence to units.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        chunks: chunks of all chunkings that the retriever's runs can hold. Spans are judged on the
            parent of a chunk that has one.
        judge: ``document``, ``chunk`` or ``evidence``.
        units: the spans that are returned for the units, as of :func:`item_spans`; None: their own.

    Returns:
        Table of :data:`rag_assets.schemas.JUDGMENTS`: a row for each unit and evidence that it
        satisfies, and one row without a unit, with the highest grade of all judgments, for each
        evidence that no unit satisfies with that grade.
    """
    with in_memory() as connection:
        connection.register("qrels", qrels)
        connection.register("chunks", chunks)
        connection.register("units", item_spans(chunks) if units is None else units)
        table = connection.sql(_JUDGE.format(units=_UNITS[judge])).to_arrow_table()
    return JUDGMENTS.check(table.cast(JUDGMENTS.arrow()))


_NOT_IN_CORPUS = """
    SELECT query_id, count(*) FROM (
        SELECT query_id, evidence_id
        FROM qrels LEFT JOIN documents d USING (document_id) WHERE grade > 0
        GROUP BY ALL HAVING count(d.document_id) = 0
    ) GROUP BY ALL
"""


def not_in_corpus(qrels: pa.Table, documents: pa.Table) -> dict[str, int]:
    """Return query -> how many of its positive evidences name no document of the corpus.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        documents: a table with the column ``document_id``: the corpus.
    """
    with in_memory() as connection:
        connection.register("qrels", qrels)
        connection.register("documents", documents.select(["document_id"]))
        return dict(connection.sql(_NOT_IN_CORPUS).fetchall())
