"""What readers could not read, as findings."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.labels.health.findings import ERROR, Finding, findings_table
from rag_assets.sources.problems import EMPTY, FOLLOWS, RowError

UNREADABLE = "unreadable"


def reading_problems(problems: Iterable[DataError]) -> pa.Table:
    """Return an error for each problem of ``datasets.problems.collecting``, without repeats.

    What only follows from another problem is left out: a judgment of a row that was refused, and a
    table that is empty because its rows were.
    """
    different = {str(problem): problem for problem in problems}
    causes = [one for one in different.values() if _check(one) not in (FOLLOWS, EMPTY)]
    return findings_table(_finding(one) for one in causes or different.values())


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
