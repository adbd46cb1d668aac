"""Whether every query was answered and has its metrics, and how many cuts go through ties.

Each check returns a sentence for each thing that is wrong, none where all is well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc


def incomplete(metrics: pa.Table, queries: pa.Table) -> list[str]:
    """Return a sentence for each query without a row, with two, or that failed."""
    counts = Counter(metrics["query_id"].to_pylist())
    failed = set(metrics.filter(metrics["failed"])["query_id"].to_pylist())
    problems = []
    for query_id in queries["query_id"].to_pylist():
        if counts[query_id] != 1:
            problems.append(f"query '{query_id}': {counts[query_id]} rows of metrics")
        elif query_id in failed:
            problems.append(f"query '{query_id}': the retriever failed")
    return problems


def tied_at_cut(metrics: pa.Table) -> list[str]:
    """Return a sentence for each query whose cut goes through units of one score.

    Which of them stand above it is decided by their ids.
    """
    tied = metrics.filter(pc.greater(metrics.column("ties_at_cut"), 0))
    return [
        f"query '{row['query_id']}': units below the cut that score as the last one above it: "
        f"{row['ties_at_cut']}"
        for row in tied.select(["query_id", "ties_at_cut"]).to_pylist()
    ]


def unanswered(run: pa.Table, queries: pa.Table, failures: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each query without a row in the run, in the order of the queries."""
    answered, failed = set(run["query_id"].unique().to_pylist()), set(failures)
    problems = {True: "the retriever failed", False: "nothing was retrieved"}
    return [
        f"query '{query_id}': {problems[query_id in failed]}"
        for query_id in queries["query_id"].to_pylist()
        if query_id not in answered
    ]
