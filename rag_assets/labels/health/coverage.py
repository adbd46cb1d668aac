"""Evidence that no chunk of a chunking covers."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.labels.health.findings import WARNING, Finding, findings_table

UNREACHABLE = "unreachable_evidence"


def unreachable_evidence(judgments: Mapping[str, pa.Table], qrels: pa.Table) -> pa.Table:
    """Return a warning for each relevant evidence and chunking without a unit that satisfies it.

    Such an evidence stays in R, so recall cannot reach 1.

    Args:
        judgments: chunking -> table of :data:`rag_assets.schemas.RELEVANT_UNITS` on its chunks.
        qrels: table of :data:`rag_assets.schemas.QRELS`.
    """
    documents = _documents(qrels)
    findings = []
    for chunking, table in judgments.items():
        missed = pc.and_(pc.is_null(table.column("item_id")), pc.greater(table.column("grade"), 0))
        for row in table.filter(missed).to_pylist():
            key = (row["query_id"], row["evidence_id"])
            message = (
                f"no chunk of chunking '{chunking}' holds half of the evidence or lies half in "
                "it; it stays in R and cannot be found"
            )
            findings.append(
                Finding(WARNING, UNREACHABLE, message, key[0], documents.get(key), key[1])
            )
    return findings_table(findings)


def _documents(qrels: pa.Table) -> dict[tuple[str, str], str]:
    """Return the first document of each evidence."""
    first: dict[tuple[str, str], str] = {}
    columns = (qrels[name].to_pylist() for name in ("query_id", "evidence_id", "document_id"))
    for query, evidence, document in zip(*columns, strict=True):
        first.setdefault((query, evidence), document)
    return first
