"""The table that every check returns; what readers could not read is told in it too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.schemas import COUNT, TEXT, Column, TableSchema
from rag_assets.sources.dataset import EMPTY, FOLLOWS, RowError

ERROR = "error"
WARNING = "warning"

FINDINGS = TableSchema(
    "findings",
    "one thing that is wrong, or may be, with documents, queries or qrels",
    ("check", "query_id", "document_id", "evidence_id", "file", "line", "message"),
    severity=Column(TEXT, "error: the label cannot be used; warning: it may mislead"),
    check=Column(TEXT, "kind of finding, such as unknown_id or quote_moved"),
    query_id=Column(TEXT, "the query that it is about", True),
    document_id=Column(TEXT, "the document that it is about", True),
    evidence_id=Column(TEXT, "the evidence that it is about", True),
    file=Column(TEXT, "the file that holds it, where known", True),
    line=Column(COUNT, "its line, counted from 1, where known", True),
    message=Column(TEXT, "what was found, for people"),
)
UNREADABLE = "unreadable"


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


def reading_problems(problems: Iterable[DataError]) -> pa.Table:
    """Return an error for each problem that ``Problems`` collected, without repeats.

    What only follows from another problem is left out: a judgment of a row that was refused, and a
    table that is empty because its rows were.
    """
    different = {str(problem): problem for problem in problems}
    causes = [cause for cause in different.values() if _check(cause) not in (FOLLOWS, EMPTY)]
    return findings_table(_finding(cause) for cause in causes or different.values())


def _check(problem: DataError) -> str:
    return problem.check if isinstance(problem, RowError) else UNREADABLE


def _finding(error: DataError) -> Finding:
    if not isinstance(error, RowError):
        return Finding(ERROR, UNREADABLE, str(error))
    return Finding(
        ERROR,
        error.check,
        f"{error.key}: {error.problem}" if error.key else error.problem,
        error.query_id,
        error.document_id,
        error.evidence_id,
        str(error.file),
        error.line,
    )
