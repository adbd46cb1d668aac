"""Whether a table of metrics can be believed, and whether a run is a ranking.

Each check returns a sentence for each thing that is wrong, none where all is well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import highest_value
from rag_assets.evaluation.units import unit_ids
from rag_assets.store.sql_paths import scratch_connection

# NaN is the largest number of DuckDB.
_DISORDERED = """
    SELECT query_id, rank, score, place FROM (
        SELECT *, row_number() OVER by_rank AS place, lag(score) OVER by_rank AS above
        FROM run WINDOW by_rank AS (PARTITION BY query_id ORDER BY rank)
    ) WHERE rank != place OR score > above OR isnan(score) ORDER BY query_id, place
"""

ROUNDING = 1e-9
"""A sum of gains divided by an equal sum of gains may exceed 1 by as much."""


def out_of_bounds(metrics: pa.Table, measures: Sequence[str]) -> list[str]:
    """Return a sentence for each value below 0, or above the highest that its metric can have."""
    problems = []
    for name in measures:
        values = metrics.column(name)
        highest = highest_value(name) + ROUNDING
        inside = pc.and_(pc.greater_equal(values, -ROUNDING), pc.less_equal(values, highest))
        for row in metrics.filter(pc.invert(inside)).to_pylist():
            problems.append(f"query '{row['query_id']}': {name} is {row[name]:g}")
    return problems


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


def disordered(run: pa.Table) -> list[str]:
    """Return a sentence for each query whose ranks are not 1 to n, or whose scores rise."""
    with scratch_connection() as connection:
        connection.register("run", run.select(["query_id", "rank", "score"]))
        rows = connection.execute(_DISORDERED).fetchall()
    problems: dict[str, str] = {}
    for query_id, rank, score, place in rows:
        problem = f"rank {rank} stands where {place} must"
        if rank == place:
            problem = f"the score {score:g} at rank {rank} is not below the one above"
        problems.setdefault(query_id, f"query '{query_id}': {problem}")
    return list(problems.values())


def unknown_ids(run: pa.Table, queries: pa.Table, chunks: pa.Table, judge: str) -> list[str]:
    """Return a sentence for each id of the run that names nothing, and each wrong document."""
    # Of many chunks a run holds few.
    named = chunks.filter(pc.is_in(chunks["chunk_id"], value_set=pc.unique(run["chunk_id"])))
    existing = {
        "query_id": queries["query_id"],
        "chunk_id": named["chunk_id"],
        "unit_id": unit_ids(chunks, judge),
    }
    problems = []
    for column, values in existing.items():
        ids = pc.unique(run[column])
        unknown = ids.filter(pc.invert(pc.is_in(ids, value_set=pc.unique(values))))
        problems += [f"{column} '{name}' does not exist" for name in unknown.to_pylist()]
    documents = dict(zip(*(named[n].to_pylist() for n in ("chunk_id", "document_id")), strict=True))
    pairs = run.select(["chunk_id", "document_id"]).group_by(["chunk_id", "document_id"])
    for row in pairs.aggregate([]).to_pylist():
        chunk_id, document_id = row["chunk_id"], row["document_id"]
        if documents.get(chunk_id, document_id) != document_id:
            problems.append(f"chunk '{chunk_id}' is not of document '{document_id}'")
    return problems
