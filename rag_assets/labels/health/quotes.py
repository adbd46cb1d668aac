"""Quotes that are no longer where their label says."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.labels.health.findings import ERROR, Finding, findings_table
from rag_assets.schemas import COUNT, TEXT, Column, TableSchema
from rag_assets.sources.judgments import Quotes, Unlocated

QUOTES = TableSchema(
    "quotes",
    "one quoted passage that is evidence for a query",
    ("query_id", "evidence_id", "document_id", "quote", "start"),
    (
        Column("query_id", TEXT, "the query"),
        Column("evidence_id", TEXT, "the evidence"),
        Column("document_id", TEXT, "the document that is quoted"),
        Column("quote", TEXT, "the passage, to the character"),
        Column("start", COUNT, "where its label says that it begins, where it says so", True),
    ),
)


def unlocated_quotes(quotes: pa.Table, documents: pa.Table) -> pa.Table:
    """Return an error for each quote that stands neither at its start nor once in its document.

    ``quote_moved``: it is in another document, in the title, or there with other white space;
    ``quote_vanished``: it is nowhere; ``quote_twice``: it is ambiguous. Quotes of documents that
    do not exist are left to :func:`rag_assets.labels.health.ids.dangling_ids`.

    Args:
        quotes: table of :data:`QUOTES`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
    """
    place = {found: row for row, found in enumerate(documents.column("document_id").to_pylist())}
    texts = Quotes(documents)
    findings: list[Finding] = []
    for row in QUOTES.check(quotes).to_pylist():
        if row["document_id"] not in place:
            continue
        found = texts.find(row["quote"], place[row["document_id"]], row["start"])
        if isinstance(found, Unlocated):
            subject = (row["query_id"], row["document_id"], row["evidence_id"])
            findings.append(Finding(ERROR, found.check, f"quote: {found.problem}", *subject))
    return findings_table(findings)
