"""What is right for each question, from the labels: its answers, and where its evidence stands."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.tables import GOLDS
from rag_assets.evaluation.query_facts import answerable_queries


def golds_of(
    facts: pa.Table, qrels: pa.Table | None, judge: str, chunks: pa.Table | None = None
) -> pa.Table:
    """Return what is right for every question.

    A question is answerable when a right answer is known, or a label has a positive grade; whether
    another one is not, :func:`~rag_assets.evaluation.query_facts.answerable_queries` says. Its
    evidence is as large as what is judged: of a judged document, the whole of it, also where the
    label has a span; of a judged chunk, the characters of the chunk.

    Args:
        facts: ``query_id``, ``answers`` and ``unanswerable`` of
            :data:`rag_assets.schemas.QUERY_FACTS`.
        qrels: table of :data:`rag_assets.schemas.QRELS`; None: there are no labels.
        judge: ``document``, ``chunk`` or ``evidence``.
        chunks: table of :data:`rag_assets.schemas.CHUNKS` of all chunkings; needed where chunks are
            judged. A label of a chunk that it lacks stays, and no context holds it.

    Returns:
        Table of :data:`~rag_assets.answers.tables.GOLDS`, in the order of ``facts``.
    """
    places: dict[str, dict[str, Any]] = {}
    if judge == "chunk" and chunks is not None:
        spans = chunks.select(["chunk_id", "document_id", "start", "end"]).to_pylist()
        places = {row.pop("chunk_id"): row for row in spans}
    evidence: dict[str, list[dict[str, Any]]] = {}
    if qrels is not None:
        for row in qrels.filter(pc.greater(qrels["grade"], 0)).to_pylist():
            place = {name: row[name] for name in ("evidence_id", "document_id", "start", "end")}
            if judge == "document":
                place |= {"start": None, "end": None}
            evidence.setdefault(row["query_id"], []).append(
                place | places.get(row["document_id"], {})
            )
    said = answerable_queries(facts, qrels)
    return GOLDS.from_rows(
        [
            {
                "query_id": row["query_id"],
                "answers": row["answers"],
                "answerable": True if row["answers"] else said[row["query_id"]],
                "evidence": evidence.get(row["query_id"], []),
            }
            for row in facts.select(["query_id", "answers"]).to_pylist()
        ]
    )
