"""Queries without a relevant document."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.labels.health.findings import WARNING, Finding, findings_table

UNANSWERABLE = "no_relevant_document"

DECLARED_TAG = "unanswerable"
DECLARED_KEY = "is_impossible"


def queries_without_relevant(qrels: pa.Table, queries: pa.Table) -> pa.Table:
    """Return a warning for each query without a positive judgment: no mean counts it.

    A query that is meant to have none says so, and is no finding: it has the tag ``unanswerable``,
    or its metadata ``is_impossible: true``, as in SQuAD.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
    """
    positive = qrels.filter(pc.greater(qrels.column("grade"), 0)).column("query_id")
    judged = set(qrels.column("query_id").to_pylist())
    answerable = set(positive.to_pylist())
    findings = []
    for query in queries.select(["query_id", "tags", "metadata"]).to_pylist():
        query_id = query["query_id"]
        if query_id not in answerable and not _declared(query["tags"], query["metadata"]):
            why = "only grades of 0 or less" if query_id in judged else "no judgment"
            message = f"has {why}; it is counted as unanswerable and enters no mean"
            findings.append(Finding(WARNING, UNANSWERABLE, message, query_id))
    return findings_table(findings)


def _declared(tags: list[str], metadata: str) -> bool:
    return DECLARED_TAG in tags or (
        DECLARED_KEY in metadata and json.loads(metadata).get(DECLARED_KEY) is True
    )
