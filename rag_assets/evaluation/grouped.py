"""Metrics for evidence in groups: a query needs every group (AND), any unit of one will do (OR).

A group is an evidence with a positive grade; G is their number. ``first(g)`` is the rank of the
first unit that satisfies g. All are at most 1, and each group counts once however many of its
units are retrieved:

- ``group_recall@k``: groups with first(g) <= k / G. The same number as ``recall@k``.
- ``group_f1@k``: harmonic mean of ``group_recall@k`` and the share of relevant units among those
  *retrieved* in the first k. (``precision@k`` divides by k.)
- ``group_mrr@k``: mean over groups of 1 / first(g), 0 below k.
- ``group_map@k``: mean over groups of the average precision of each: with the group's units in
  the first k at ranks r(1) < r(2) < ..., the mean of i / r(i); 0 without one.
- ``group_ndcg@k``: only the first unit of a not yet satisfied group gains, its grade. The j-th
  group in the order of first(g) gains at position max(first(g), j), discount log2(position + 1),
  nothing below k; the ideal has one entry a group, highest grades first, cut at k. A unit that
  satisfies two groups at once thus gains both and can still not exceed the ideal. Where no unit
  satisfies two groups it is ``ndcg@k``.
- ``full_recall@k``: 1 when every group has first(g) <= k.

Recall, F1, MRR and MAP are AutoRAG's definitions (``autorag/evaluation/metric/retrieval.py``,
0.3.27) of the list cut at k, where no document repeats; its nDCG is not bounded, and ours is
another. A query without a group has null metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from rag_assets.evaluation.metric_inputs import Cell, by_cell, cutoff_table, pairs, stacked
from rag_assets.evaluation.metric_names import GROUP_MEASURES
from rag_assets.scratch_duckdb import scratch_connection

# Sums of floats are ordered, so that the last bit does not depend on threads.
_METRICS = """
WITH labels AS (
    SELECT run, query_id, evidence_id, unit_id, grade
    FROM relevant_units JOIN judged_by USING (judged) WHERE grade > 0
), groups AS (
    SELECT run, query_id, evidence_id, max(grade) AS grade FROM labels GROUP BY ALL
), wanted AS (
    SELECT run, query_id, count(*) AS g FROM groups GROUP BY ALL
), ideal_positions AS (
    SELECT run, query_id, grade,
           row_number() OVER (PARTITION BY run, query_id ORDER BY grade DESC) AS position
    FROM groups
), ideals AS (
    SELECT run, query_id, top_k, sum(grade / log2(position + 1) ORDER BY position) AS idcg
    FROM ideal_positions JOIN cutoffs USING (run) WHERE position <= top_k GROUP BY ALL
), found AS (
    SELECT run, query_id, evidence_id, rank, grade,
           row_number() OVER (PARTITION BY run, query_id, evidence_id ORDER BY rank) AS nth
    FROM runs JOIN labels USING (run, query_id, unit_id)
), firsts AS (
    SELECT run, query_id, evidence_id, rank, grade,
           row_number() OVER (
               PARTITION BY run, query_id ORDER BY rank, grade DESC, evidence_id
           ) AS nth_group
    FROM found WHERE nth = 1
), firsts_at AS (
    SELECT run, query_id, top_k,
           count(*) AS n_found,
           sum(1 / rank ORDER BY nth_group) AS reciprocals,
           sum(grade / log2(greatest(rank, nth_group) + 1) ORDER BY nth_group)
               FILTER (nth_group <= top_k) AS dcg
    FROM firsts JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), precisions AS (
    SELECT run, query_id, top_k, evidence_id, sum(nth / rank ORDER BY rank) / count(*) AS precision
    FROM found JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), precisions_at AS (
    SELECT run, query_id, top_k, sum(precision ORDER BY evidence_id) AS precisions
    FROM precisions GROUP BY ALL
), relevant_at AS (
    SELECT run, query_id, top_k, count(DISTINCT rank) AS n_relevant_units
    FROM found JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), retrieved_at AS (
    SELECT run, query_id, top_k, count(*) AS n_retrieved
    FROM runs JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), shares AS (
    SELECT run, top_k, query_id, g, idcg, dcg, reciprocals, precisions, n_found,
           n_found / g AS recall, n_relevant_units / n_retrieved AS precision
    FROM (SELECT run, top_k, query_id FROM cutoffs CROSS JOIN queries)
    LEFT JOIN wanted USING (run, query_id)
    LEFT JOIN ideals USING (run, query_id, top_k)
    LEFT JOIN firsts_at USING (run, query_id, top_k)
    LEFT JOIN precisions_at USING (run, query_id, top_k)
    LEFT JOIN relevant_at USING (run, query_id, top_k)
    LEFT JOIN retrieved_at USING (run, query_id, top_k)
)
SELECT run, top_k, query_id,
       CASE WHEN g > 0 THEN coalesce(recall, 0)::DOUBLE END AS group_recall,
       CASE WHEN g > 0
            THEN coalesce(2 * recall * precision / (recall + precision), 0)::DOUBLE
       END AS group_f1,
       CASE WHEN g > 0 THEN coalesce(reciprocals / g, 0)::DOUBLE END AS group_mrr,
       CASE WHEN g > 0 THEN coalesce(precisions / g, 0)::DOUBLE END AS group_map,
       CASE WHEN g > 0 THEN coalesce(dcg / idcg, 0)::DOUBLE END AS group_ndcg,
       CASE WHEN g > 0 THEN coalesce((n_found = g)::INTEGER, 0)::DOUBLE END AS full_recall
FROM shares
ORDER BY run, top_k, query_id
"""


def group_metrics(
    runs: Mapping[str, pa.Table],
    relevant_units: Mapping[str, pa.Table],
    judged_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
) -> dict[Cell, pa.Table]:
    """Compute the measures of groups for every query, run and cut-off, in one SQL statement.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`; a unit at most once a query.
        relevant_units: name -> table of :data:`rag_assets.schemas.RELEVANT_UNITS`; a group is an
            evidence.
        judged_by: run -> the name of its relevant units.
        queries: a table with the column ``query_id``; each gets a row, retrieved or not.
        cutoffs: the (run, k) pairs that are wanted.

    Returns:
        (run, k) -> table of ``query_id`` and all of
        :data:`rag_assets.evaluation.metric_names.GROUP_MEASURES`, float64, sorted by query id.
    """
    cells = list(cutoffs)
    with scratch_connection() as connection:
        connection.register("runs", stacked("run", runs, ["query_id", "rank", "unit_id"]))
        columns = ["query_id", "evidence_id", "unit_id", "grade"]
        connection.register("relevant_units", stacked("judged", relevant_units, columns))
        connection.register("judged_by", pairs("run", "judged", judged_by.items()))
        connection.register("cutoffs", cutoff_table(cells))
        connection.register("queries", queries.select(["query_id"]))
        table = connection.sql(_METRICS).to_arrow_table()
    fields = [pa.field(measure, pa.float64()) for measure in GROUP_MEASURES]
    schema = pa.schema(
        [
            pa.field("run", pa.string()),
            pa.field("top_k", pa.int64()),
            pa.field("query_id", pa.string()),
            *fields,
        ]
    )
    return by_cell(table.cast(schema), cells)
