"""Whether a table of metrics can be believed, and whether a run is a ranking.

Metrics: values in bounds, all queries there, ties. Runs: who is answered, ranks and scores in
order, ids that exist. Each check returns sentences about what is wrong, none where all is well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import highest_value
from rag_assets.evaluation.units import unit_ids

ROUNDING = 1e-9
"""A sum of gains divided by an equal sum of gains may exceed 1 by as much."""


def out_of_bounds(metrics: pa.Table, measures: Sequence[str]) -> list[str]:
    """Return a sentence for each value below 0, or above the highest that its metric can have.

    Args:
        metrics: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        measures: its columns of metrics; a null is no value.
    """
    problems = []
    for name in measures:
        values = metrics.column(name)
        highest = highest_value(name) + ROUNDING
        inside = pc.and_(pc.greater_equal(values, -ROUNDING), pc.less_equal(values, highest))
        for row in metrics.filter(pc.invert(inside)).to_pylist():
            problems.append(f"query '{row['query_id']}': {name} is {row[name]:g}")
    return problems


def incomplete(metrics: pa.Table, queries: pa.Table) -> list[str]:
    """Return a sentence for each query without a row, with two, or on which the retriever failed.

    Args:
        metrics: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        queries: with the column ``query_id``; all queries that were asked.
    """
    counted = pc.value_counts(metrics.column("query_id")).to_pylist()
    counts = {row["values"]: row["counts"] for row in counted}
    failed = set(metrics.filter(metrics.column("failed")).column("query_id").to_pylist())
    problems = []
    for query_id in queries.column("query_id").to_pylist():
        if counts.get(query_id, 0) != 1:
            problems.append(f"query '{query_id}': {counts.get(query_id, 0)} rows of metrics")
        elif query_id in failed:
            problems.append(f"query '{query_id}': the retriever failed")
    return problems


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


def unanswered(run: pa.Table, queries: pa.Table, failures: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each query without a row in the run, in the order of the queries.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`.
        queries: with the column ``query_id``; all queries that were asked.
        failures: queries on which the retriever failed.
    """
    ids = queries.column("query_id")
    missing = ids.filter(pc.invert(pc.is_in(ids, value_set=_values(run, "query_id"))))
    failed = set(failures)
    problems = {True: "the retriever failed", False: "nothing was retrieved"}
    return [
        f"query '{query_id}': {problems[query_id in failed]}" for query_id in missing.to_pylist()
    ]


def disordered(run: pa.Table) -> list[str]:
    """Return a sentence for each query whose ranks are not 1 to n, or whose scores rise or are NaN.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`, in any order of rows.
    """
    codes = pc.dictionary_encode(run.column("query_id")).combine_chunks()
    query = codes.indices.to_numpy(zero_copy_only=False)
    rank, score = (run.column(name).to_numpy() for name in ("rank", "score"))
    order = np.lexsort((rank, query))
    query, rank, score = query[order], rank[order], score[order]
    first = np.append(True, query[1:] != query[:-1])[: len(query)]
    starts = np.flatnonzero(first)
    place = np.arange(len(query)) - np.repeat(starts, np.diff(np.append(starts, len(query)))) + 1
    rises = np.zeros(len(query), bool)
    rises[1:] = ~first[1:] & ~(score[1:] <= score[:-1])
    problems: dict[int, str] = {}
    for row in np.flatnonzero((rank != place) | rises | np.isnan(score)):
        name = codes.dictionary[query[row]].as_py()
        if rank[row] != place[row]:
            problem = f"rank {rank[row]} stands where {place[row]} must"
        else:
            problem = f"the score {score[row]:g} at rank {rank[row]} is not below the one above"
        problems.setdefault(int(query[row]), f"query '{name}': {problem}")
    return list(problems.values())


def unknown_ids(run: pa.Table, queries: pa.Table, chunks: pa.Table, judge: str) -> list[str]:
    """Return a sentence for each id of the run that names nothing, and each wrong document.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`.
        queries: with the column ``query_id``.
        chunks: with ``chunk_id``, ``document_id`` and, where there are parents,
            ``parent_chunk_id``: all that can be found.
        judge: the unit that is judged.
    """
    existing = {
        "query_id": _values(queries, "query_id"),
        "chunk_id": _values(chunks, "chunk_id"),
        "unit_id": pc.unique(unit_ids(chunks, judge)),
    }
    problems = []
    for column, values in existing.items():
        ids = pc.unique(run.column(column))
        unknown = ids.filter(pc.invert(pc.is_in(ids, value_set=values)))
        problems += [f"{column} '{name}' does not exist" for name in unknown.to_pylist()]
    pairs = run.select(["chunk_id", "document_id"]).group_by(["chunk_id", "document_id"])
    for row in _misplaced(pairs.aggregate([]), chunks).to_pylist():
        problems.append(f"chunk '{row['chunk_id']}' is not of document '{row['document_id']}'")
    return problems


def _misplaced(pairs: pa.Table, chunks: pa.Table) -> pa.Table:
    """Return the pairs of a known chunk and a document that is not its own."""
    rows = pc.index_in(pairs.column("chunk_id"), value_set=_array(chunks, "chunk_id"))
    documents = _array(chunks, "document_id").take(pc.fill_null(rows, 0))
    differs = pc.and_(pc.is_valid(rows), pc.not_equal(documents, pairs.column("document_id")))
    return pairs.filter(differs) if chunks.num_rows else pairs.slice(0, 0)


def _values(table: pa.Table, column: str) -> pa.Array:
    return pc.unique(table.column(column))


def _array(table: pa.Table, column: str) -> pa.Array:
    return table.column(column).combine_chunks()
