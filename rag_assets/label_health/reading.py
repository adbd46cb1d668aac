"""What readers could not read, as findings."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from rag_assets.datasets.problems import RowError
from rag_assets.errors import DataError
from rag_assets.label_health.findings import ERROR, Finding, findings_table

UNREADABLE = "unreadable"


def reading_problems(problems: Iterable[DataError]) -> pa.Table:
    """Return an error for each problem of ``datasets.problems.collecting``, without repeats."""
    different = {str(problem): problem for problem in problems}
    return findings_table(_finding(problem) for problem in different.values())


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
