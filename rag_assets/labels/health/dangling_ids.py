"""Judgments of queries and documents that do not exist, or of ids of another level."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.labels.health.findings import ERROR, WARNING, Finding, findings_table
from rag_assets.sources.ids import KnownIds
from rag_assets.sources.problems import UNKNOWN_ID


def dangling_ids(
    qrels: pa.Table, documents: pa.Table, queries: pa.Table, *, keeps_unknown: bool = False
) -> pa.Table:
    """Return an error for each judgment whose query or document does not exist.

    ``unknown_id``: there is nothing like it. ``id_level``: it is the id of a chunk such as
    ``fares.md#0-200``, a file name without its end, or a document where the corpus holds chunks;
    the message says which document is probably meant.

    Args:
        qrels: table of :data:`rag_assets.schemas.QRELS`, its ids not checked.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        keeps_unknown: whether unknown documents are wanted: then ``id_level`` alone is found, as a
            warning, for there the corpus has the document under another id.
    """
    findings: list[Finding] = []
    for kind, table in (("query", queries), ("document", documents)):
        column = f"{kind}_id"
        dangling = pc.invert(pc.is_in(qrels.column(column), value_set=_ids(table, column)))
        ids = KnownIds(kind, table.column(column))
        explained: dict[str, tuple[str, str]] = {}
        for row in qrels.filter(dangling).to_pylist():
            unknown = row[column]
            if unknown not in explained:
                explained[unknown] = ids.explain(unknown)
            check, message = explained[unknown]
            is_kept = keeps_unknown and kind == "document"
            if is_kept and check == UNKNOWN_ID:
                continue
            subject = (row["query_id"], row["document_id"], row["evidence_id"])
            findings.append(Finding(WARNING if is_kept else ERROR, check, message, *subject))
    return findings_table(findings)


def _ids(table: pa.Table, column: str) -> pa.Array:
    return table.column(column).combine_chunks()
