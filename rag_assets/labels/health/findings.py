"""The table that every check returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from rag_assets.schemas import COUNT, TEXT, Column, TableSchema

ERROR = "error"
WARNING = "warning"

FINDINGS = TableSchema(
    "findings",
    "one thing that is wrong, or may be, with documents, queries or qrels",
    ("check", "query_id", "document_id", "evidence_id", "file", "line", "message"),
    (
        Column("severity", TEXT, "error: the label cannot be used; warning: it may mislead"),
        Column("check", TEXT, "kind of finding, such as unknown_id or quote_moved"),
        Column("query_id", TEXT, "the query that it is about", True),
        Column("document_id", TEXT, "the document that it is about", True),
        Column("evidence_id", TEXT, "the evidence that it is about", True),
        Column("file", TEXT, "the file that holds it, where known", True),
        Column("line", COUNT, "its line, counted from 1, where known", True),
        Column("message", TEXT, "what was found, for people"),
    ),
)


class Finding(NamedTuple):
    """One row of :data:`FINDINGS`."""

    severity: str
    check: str
    message: str
    query_id: str | None = None
    document_id: str | None = None
    evidence_id: str | None = None
    file: str | None = None
    line: int | None = None


def findings_table(findings: Iterable[Finding]) -> pa.Table:
    """Return findings as a table, in their order."""
    return FINDINGS.from_rows([finding._asdict() for finding in findings])


def rows(table: pa.Table) -> list[Finding]:
    """Return the rows of a table of findings."""
    return [Finding(**row) for row in table.to_pylist()]
