"""What the order of tied units is worth: the worst and the best value over all of their orders.

Units of one score have no order of their own; a rule (here the id, descending) gives them one, and
another rule can give another value. The bounds need no search: within a group of tied units every
measure here only grows when a unit of a higher grade moves up. So the best order of a group is by
grade descending, the worst by grade ascending: the rearrangement inequality.

For ``recall`` and ``ndcg`` this needs each unit to satisfy one evidence, and each evidence to be
satisfied by one unit, as in TREC; else a unit's gain depends on what stands above it. A group with
one relevant unit is safe even then. Where a group holds more, bounds of these two are refused.

Which units are tied across a cut is counted in the ranking that a run was cut from, because the run
of a cell ends at its cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import WHOLE_RANKING, query_metrics
from rag_assets.schemas import RUNS
from rag_assets.store.sql_paths import scratch_connection

if TYPE_CHECKING:
    import duckdb


BOUNDED = ("hit_rate", "mrr", "ndcg", "recall", "precision")
"""Measures with bounds."""

_ONE_TO_ONE = frozenset({"ndcg", "recall"})

# Unjudged units and those with a grade below 0 gain as little as those with grade 0.
_REORDERED = """
    SELECT query_id,
           row_number() OVER (
               PARTITION BY query_id
               ORDER BY score DESC, greatest(coalesce(best, 0), 0) {direction}, rank
           )::INTEGER AS rank,
           score, unit_id, chunk_id, document_id
    FROM run LEFT JOIN (
        SELECT query_id, unit_id, max(grade) AS best FROM relevant_units GROUP BY ALL
    ) USING (query_id, unit_id)
    ORDER BY query_id, rank
"""

_SHARED = """
    SELECT query_id, unit_id, evidence_id FROM (
        SELECT *, count(*) OVER (PARTITION BY query_id, unit_id) AS n_evidences,
               count(*) OVER (PARTITION BY query_id, evidence_id) AS n_units
        FROM relevant_units WHERE unit_id IS NOT NULL AND grade > 0
    ) WHERE (n_evidences > 1 OR n_units > 1) AND query_id IN (
        SELECT query_id FROM run JOIN (
            SELECT DISTINCT query_id, unit_id FROM relevant_units WHERE grade > 0
        ) USING (query_id, unit_id)
        GROUP BY query_id, score HAVING count(*) > 1
    ) ORDER BY ALL LIMIT 1
"""

TIES = "ties_at_cut"
"""Column of query metrics, and the fact of a run's manifest from which it is filled."""

BELOW = 10
"""Ranks below the cut that are looked at, and that a ranking is searched for below its deepest cut.

A fixed number: what is counted must not depend on how deep another cell or fusion reads.
"""


def tie_bounds(
    run: pa.Table, relevant_units: pa.Table, metrics: Sequence[Metric]
) -> dict[Metric, pa.Table]:
    """Return metric -> ``query_id``, ``worst``, ``value`` and ``best`` of each judged query.

    Values are null where there is no relevant judgment.

    Args:
        run: as deep as it is known: a tied unit below the cut can come above it.
        relevant_units: the labels.
        metrics: measures of :data:`BOUNDED`; without a cut-off, over the whole ranking.

    Raises:
        UsageError: a measure is not one of those.
        DataError: ``recall`` or ``ndcg`` is asked for, and in a query with tied relevant units a
            unit satisfies several evidences, or several units one; or the ranks contradict the
            scores.
    """
    for metric in metrics:
        if metric.measure not in BOUNDED:
            raise UsageError(f"cannot bound ties for {allowed_names(metric.measure, BOUNDED)}")
    with scratch_connection() as connection:
        connection.register("run", run)
        connection.register("relevant_units", relevant_units)
        _check(connection, metrics)
        runs = {
            name: connection.sql(_REORDERED.format(direction=direction)).to_arrow_table()
            for name, direction in (("worst", "ASC"), ("best", "DESC"))
        }
    runs = {name: RUNS.check(table.cast(RUNS.arrow())) for name, table in runs.items()}
    runs["value"] = run
    cutoffs = {metric.cutoff or WHOLE_RANKING for metric in metrics}
    cells = [(name, cutoff) for name in runs for cutoff in sorted(cutoffs)]
    queries = pa.table({"query_id": pc.unique(relevant_units.column("query_id"))})
    judged_by = dict.fromkeys(runs, "judged")
    tables = query_metrics(runs, {"judged": relevant_units}, judged_by, queries, cells, metrics)
    bounds = {}
    for metric in metrics:
        cell = "value", metric.cutoff or WHOLE_RANKING
        columns = {name: tables[name, cell[1]][metric.column] for name in runs}
        bounds[metric] = pa.table({"query_id": tables[cell]["query_id"], **columns})
    return bounds


def _check(connection: duckdb.DuckDBPyConnection, metrics: Sequence[Metric]) -> None:
    unordered = connection.execute(
        "SELECT a.query_id, a.rank FROM run a JOIN run b USING (query_id) "
        "WHERE b.rank = a.rank + 1 AND b.score > a.score ORDER BY ALL LIMIT 1"
    ).fetchone()
    if unordered is not None:
        query_id, rank = unordered
        raise DataError(f"rank {rank} of query '{query_id}' scores less than the rank below it")
    needing = [metric.column for metric in metrics if metric.measure in _ONE_TO_ONE]
    shared = connection.execute(_SHARED).fetchone() if needing else None
    if shared is not None:
        query_id, unit, evidence = shared
        problem = "cannot be bounded over tied relevant units unless each unit matches one evidence"
        where = f"unit '{unit}' and evidence '{evidence}' of query '{query_id}'"
        raise DataError(f"{needing[0]} {problem}: {where}")


def tied_at_cut(ranking: pa.Table, top_k: int, *, ends_known: bool) -> dict[str, int | None]:
    """Return query id -> units below the cut that are tied with the unit at rank ``top_k``.

    A query that is not named has none; at most :data:`BELOW` are counted, in a ranking that is as
    much deeper where there is more. ``ends_known``: a query with no rank below the cut has nothing
    there, because more was asked for; otherwise it is named with None.
    """
    ranks = ranking["rank"].to_numpy()
    deep = ranking.select(["query_id", "rank", "score"])
    near = deep.filter(pa.array((ranks >= top_k) & (ranks <= top_k + BELOW)))
    encoded = near["query_id"].combine_chunks().dictionary_encode()
    names, query = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    ranks, scores = near["rank"].to_numpy(), near["score"].to_numpy()
    at_cut, below = ranks == top_k, ranks > top_k
    last = np.full(len(names), np.nan)  # a query that ends above the cut is tied with nothing
    last[query[at_cut]] = scores[at_cut]
    tied = np.bincount(query[below & (scores == last[query])], minlength=len(names))
    by_query: dict[str, int | None] = {names[i]: int(tied[i]) for i in np.flatnonzero(tied)}
    if not ends_known:
        going_on = np.bincount(query[below], minlength=len(names))
        by_query |= {names[i]: None for i in np.flatnonzero(going_on == 0)}
    return dict(sorted(by_query.items()))


def with_ties(table: pa.Table, ties: Mapping[str, int | None]) -> pa.Table:
    """Return query metrics with the ties that were counted when the run was cut."""
    counts = [ties.get(query_id, 0) for query_id in table["query_id"].to_pylist()]
    place = table.column_names.index(TIES)
    return table.set_column(place, table.schema.field(place), pa.array(counts, pa.int32()))
