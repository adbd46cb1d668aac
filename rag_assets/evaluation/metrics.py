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
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF, RANKING_MEASURES, Metric
from rag_assets.evaluation.metric_sql import metrics_statement
from rag_assets.evaluation.metric_tables import check_grades, check_runs, load
from rag_assets.schemas import QUERY_METRICS

WHOLE_RANKING = LARGEST_CUTOFF
"""Cut-off that cuts nothing."""

DEFAULT_METRICS = tuple(
    Metric(measure) for measure in ("hit_rate", "mrr", "ndcg", "recall", "precision", "map")
)

Cell = tuple[str, int]
"""A run and a cut-off."""

Source: TypeAlias = pa.Table | Path
"""A table, or the path of a Parquet file that holds one."""


def query_metrics(
    runs: Mapping[str, Source],
    judgments: Mapping[str, Source],
    judged_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
    metrics: Iterable[Metric] = DEFAULT_METRICS,
) -> dict[Cell, pa.Table]:
    """Compute metrics of every query, run and cut-off.

    A Parquet file is read by the engine itself, only the columns that are needed: faster, and in
    less memory, than a table made of it.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        judgments: name -> table of :data:`rag_assets.schemas.JUDGMENTS`.
        judged_by: run -> the name of its judgments.
        queries: a table with the column ``query_id``; each gets a row, retrieved or not.
        cutoffs: the (run, k) pairs that are wanted.
        metrics: what to compute; their own cut-offs are not read.

    Returns:
        (run, k) -> table of :data:`rag_assets.schemas.QUERY_METRICS` with one column a metric
        (:attr:`Metric.column`), sorted by query id.

    Raises:
        UsageError: a metric is not one of a ranking.
        DataError: a unit stands twice for a query of a run, or two have one rank; a grade is
            higher than a metric allows.
    """
    cells = list(dict.fromkeys(cutoffs))
    wanted = list({metric.column: metric._replace(cutoff=None) for metric in metrics}.values())
    for metric in wanted:
        if metric.measure not in RANKING_MEASURES:
            raise UsageError(f"{metric.column} is not computed from a ranking and its judgments")
    if not cells:
        return {}
    with duckdb.connect() as connection:
        names = load(connection, runs, judgments, judged_by, queries, cells)
        check_runs(connection, names)
        check_grades(connection, wanted)
        statement = metrics_statement(wanted, sorted({top_k for _, top_k in cells}))
        table = connection.sql(statement).to_arrow_table()
    return _by_cell(table, sorted((names.index(run), top_k) for run, top_k in cells), names, cells)


def _by_cell(
    table: pa.Table, order: list[tuple[int, int]], names: list[str], cells: list[Cell]
) -> dict[Cell, pa.Table]:
    """Cut the result, in which each cell has one row a query, in order of run and cut-off."""
    measures = [pa.field(name, pa.float64()) for name in table.column_names[8:]]
    schema = pa.schema([*QUERY_METRICS.arrow(), *measures])
    table = table.drop_columns(["run", "top_k"]).cast(schema).combine_chunks()
    rows = table.num_rows // len(order)
    parts = {
        (names[run], top_k): QUERY_METRICS.check(table.slice(number * rows, rows))
        for number, (run, top_k) in enumerate(order)
    }
    return {cell: parts[cell] for cell in cells}
