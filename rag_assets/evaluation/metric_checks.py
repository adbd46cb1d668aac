"""Whether a table of metrics can be believed: values in bounds, all queries there, ties.

Each check returns sentences about what is wrong, none where all is well.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

ROUNDING = 1e-9
"""A sum of gains divided by an equal sum of gains may exceed 1 by as much."""


def out_of_bounds(metrics: pa.Table, measures: Sequence[str]) -> list[str]:
    """Return a sentence for each value that is not between 0 and 1: every metric here is a share.

    Args:
        metrics: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        measures: its columns of metrics; a null is no value.
    """
    found = []
    for name in measures:
        values = metrics.column(name)
        inside = pc.and_(pc.greater_equal(values, -ROUNDING), pc.less_equal(values, 1.0 + ROUNDING))
        for row in metrics.filter(pc.invert(inside)).to_pylist():
            found.append(f"query '{row['query_id']}': {name} is {row[name]:g}")
    return found


def incomplete(metrics: pa.Table, queries: pa.Table) -> list[str]:
    """Return a sentence for each query without a row, with two, or on which the retriever failed.

    Args:
        metrics: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        queries: with the column ``query_id``; all queries that were asked.
    """
    counted = pc.value_counts(metrics.column("query_id")).to_pylist()
    counts = {row["values"]: row["counts"] for row in counted}
    failed = set(metrics.filter(metrics.column("failed")).column("query_id").to_pylist())
    found = []
    for one in queries.column("query_id").to_pylist():
        if counts.get(one, 0) != 1:
            found.append(f"query '{one}': {counts.get(one, 0)} rows of metrics")
        elif one in failed:
            found.append(f"query '{one}': the retriever failed")
    return found


def tied_at_cut(metrics: pa.Table) -> list[str]:
    """Return a sentence for each query whose cut goes through units of one score.

    Which of them stand above it is decided by their ids, so its metrics could as well be others.

    Args:
        metrics: table of :data:`rag_assets.schemas.QUERY_METRICS`.
    """
    tied = metrics.filter(pc.greater(metrics.column("ties_at_cut"), 0))
    return [
        f"query '{row['query_id']}': units below the cut that score as the last one above it: "
        f"{row['ties_at_cut']}"
        for row in tied.select(["query_id", "ties_at_cut"]).to_pylist()
    ]
