"""Whether a table of metrics can be believed, and whether a run is a ranking.

Metrics: values in bounds, all queries there, ties. Runs: who is answered, ranks and scores in
order, ids that exist. Each check returns sentences about what is wrong, none where all is well.
"""

from __future__ import annotations

from collections import Counter
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
    answered, failed = set(run["query_id"].unique().to_pylist()), set(failures)
    problems = {True: "the retriever failed", False: "nothing was retrieved"}
    return [
        f"query '{query_id}': {problems[query_id in failed]}"
        for query_id in queries["query_id"].to_pylist()
        if query_id not in answered
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
