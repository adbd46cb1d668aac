"""All metrics of all queries of all runs at all cut-offs, in one SQL statement.

The formulas are those of trec_eval (Buckley and NIST, https://github.com/usnistgov/trec_eval) with
relevance level 1, carried over to evidence: the first unit that satisfies an evidence earns, a
later one earns nothing but counts as relevant for precision. Where each evidence is one document
the two are the same. With R = number of evidences with a positive grade and ``rel(i)`` = 1 when
the unit at rank i satisfies any of them:

- ``hit_rate@k``: 1 when any rank <= k is relevant (success).
- ``mrr@k``: 1 / rank of the first relevant unit, 0 when it is deeper than k.
- ``precision@k``: relevant units in the first k / k, also when fewer than k were retrieved.
- ``recall@k``: evidences satisfied in the first k / R.
- ``map@k``: sum over evidences satisfied in the first k of the precision at the rank that first
  satisfies it / R.
- ``ndcg@k``: DCG / ideal DCG; DCG = sum of gain(i) / log2(i + 1) with gain(i) the highest grade
  among the evidences first satisfied at rank i; the ideal has the R highest grades, one a rank,
  cut at k.

A query without a positive judgment has null metrics: it has no value, and is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb
import pyarrow as pa

from rag_assets.evaluation.metric_names import LARGEST_CUTOFF, MEASURES
from rag_assets.schemas import QUERY_METRICS

WHOLE_RANKING = LARGEST_CUTOFF
"""Cut-off that cuts nothing."""

# Sums of floats are ordered by rank, so that the last bit does not depend on threads.
_METRICS = """
WITH labels AS (
    SELECT run, query_id, evidence_id, item_id, grade
    FROM judgments JOIN judged_by USING (judged)
), evidences AS (
    SELECT run, query_id, evidence_id, max(grade) AS grade, count(item_id) = 0 AS unreachable
    FROM labels WHERE grade > 0 GROUP BY ALL
), wanted AS (
    SELECT run, query_id, count(*) AS r, count(*) FILTER (unreachable) AS n_unreachable
    FROM evidences GROUP BY ALL
), ideal_ranks AS (
    SELECT run, query_id, grade,
           row_number() OVER (PARTITION BY run, query_id ORDER BY grade DESC) AS rank
    FROM evidences
), ideals AS (
    SELECT run, query_id, top_k, sum(grade / log2(rank + 1) ORDER BY rank) AS idcg
    FROM ideal_ranks JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
), found AS (
    SELECT run, query_id, evidence_id, rank, grade
    FROM runs JOIN labels USING (run, query_id, item_id) WHERE grade > 0
), relevant_ranks AS (
    SELECT run, query_id, rank,
           row_number() OVER (PARTITION BY run, query_id ORDER BY rank) AS relevant_so_far
    FROM (SELECT DISTINCT run, query_id, rank FROM found)
), firsts AS (
    SELECT run, query_id, evidence_id, min(rank) AS rank, arg_min(grade, rank) AS grade
    FROM found GROUP BY ALL
), earnings AS (
    SELECT run, query_id, rank, count(*) AS n_evidences, max(grade) AS gain
    FROM firsts GROUP BY ALL
), sums AS (
    SELECT run, query_id, top_k,
           count(*) AS n_relevant_units,
           min(rank) AS first_rank,
           sum(coalesce(n_evidences, 0)) AS n_found,
           sum(coalesce(gain, 0) / log2(rank + 1) ORDER BY rank) AS dcg,
           sum(coalesce(n_evidences, 0) * relevant_so_far / rank ORDER BY rank) AS precisions
    FROM relevant_ranks
    LEFT JOIN earnings USING (run, query_id, rank)
    JOIN cutoffs USING (run)
    WHERE rank <= top_k GROUP BY ALL
), retrieved AS (
    SELECT run, query_id, top_k, count(*) AS n_retrieved, count(judged_item) AS n_judged
    FROM runs
    LEFT JOIN (SELECT DISTINCT run, query_id, item_id, true AS judged_item FROM labels)
        USING (run, query_id, item_id)
    JOIN cutoffs USING (run)
    WHERE rank <= top_k GROUP BY ALL
)
SELECT run, top_k, query_id,
       coalesce(r, 0)::INTEGER AS n_relevant,
       coalesce(n_unreachable, 0)::INTEGER AS n_unreachable,
       coalesce(n_retrieved, 0)::INTEGER AS n_retrieved,
       coalesce(n_judged, 0)::INTEGER AS n_judged,
       NULL::BIGINT AS tokens,
       CASE WHEN r > 0 THEN (n_relevant_units IS NOT NULL)::DOUBLE END AS hit_rate,
       CASE WHEN r > 0 THEN coalesce(1 / first_rank, 0)::DOUBLE END AS mrr,
       CASE WHEN r > 0 THEN coalesce(dcg / idcg, 0)::DOUBLE END AS ndcg,
       CASE WHEN r > 0 THEN coalesce(n_found / r, 0)::DOUBLE END AS recall,
       CASE WHEN r > 0 THEN coalesce(n_relevant_units / top_k, 0)::DOUBLE END AS precision,
       CASE WHEN r > 0 THEN coalesce(precisions / r, 0)::DOUBLE END AS map
FROM (SELECT run, top_k, query_id FROM cutoffs CROSS JOIN queries)
LEFT JOIN wanted USING (run, query_id)
LEFT JOIN ideals USING (run, query_id, top_k)
LEFT JOIN sums USING (run, query_id, top_k)
LEFT JOIN retrieved USING (run, query_id, top_k)
ORDER BY run, top_k, query_id
"""

Cell = tuple[str, int]
"""A run and a cut-off."""


def query_metrics(
    runs: Mapping[str, pa.Table],
    judgments: Mapping[str, pa.Table],
    judged_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
) -> dict[Cell, pa.Table]:
    """Compute every measure for every query, run and cut-off.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`; a unit at most once a query.
        judgments: name -> table of :data:`rag_assets.schemas.JUDGMENTS`.
        judged_by: run -> the name of its judgments.
        queries: a table with the column ``query_id``; each gets a row, retrieved or not.
        cutoffs: the (run, k) pairs that are wanted.

    Returns:
        (run, k) -> table of :data:`rag_assets.schemas.QUERY_METRICS` with all measures, sorted by
        query id.
    """
    cells = list(cutoffs)
    with duckdb.connect() as connection:
        connection.register("runs", _stacked("run", runs, ["query_id", "rank", "item_id"]))
        columns = ["query_id", "evidence_id", "item_id", "grade"]
        connection.register("judgments", _stacked("judged", judgments, columns))
        connection.register("judged_by", _pairs("run", "judged", judged_by.items()))
        connection.register("cutoffs", _pairs("run", "top_k", cells))
        connection.register("queries", queries.select(["query_id"]))
        table = connection.sql(_METRICS).to_arrow_table()
    return {cell: _cell(table, cell) for cell in cells}


def _stacked(label: str, tables: Mapping[str, pa.Table], columns: list[str]) -> pa.Table:
    parts = []
    for name, table in tables.items():
        names = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), [name])
        parts.append(table.select(columns).append_column(label, names.cast(pa.string())))
    return pa.concat_tables(parts)


def _pairs(first: str, second: str, pairs: Iterable[tuple[str, str | int]]) -> pa.Table:
    rows = list(pairs)
    return pa.table({first: [a for a, _ in rows], second: [b for _, b in rows]})


def _cell(table: pa.Table, cell: Cell) -> pa.Table:
    import pyarrow.compute as pc

    run, top_k = cell
    chosen = table.filter(
        pc.and_(pc.equal(table["run"], run), pc.equal(table["top_k"], top_k))
    ).drop_columns(["run", "top_k"])
    computed = [measure for measure in MEASURES if measure in table.column_names]
    schema = pa.schema(
        [*QUERY_METRICS.arrow(), *[pa.field(measure, pa.float64()) for measure in computed]]
    )
    return QUERY_METRICS.check(chosen.cast(schema).combine_chunks())
