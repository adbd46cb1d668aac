"""Metrics of all queries of all runs at all cut-offs, in one SQL statement.

The formulas are those of trec_eval (Buckley and NIST, https://github.com/usnistgov/trec_eval),
carried over to evidence: the first unit that satisfies an evidence earns, a later one earns nothing
but counts as relevant for precision. Where each evidence is one document the two are the same. With
R = number of evidences with a grade of at least the relevance level (``rel``, 1 by default),
``rel(i)`` = 1 when the unit at rank i satisfies any of them, and gain(i) = the highest grade among
the evidences first satisfied at rank i:

- ``hit_rate@k``: 1 when any rank <= k is relevant (success).
- ``mrr@k``: 1 / rank of the first relevant unit, 0 when it is deeper than k.
- ``precision@k``: relevant units in the first k / k, also when fewer than k were retrieved.
- ``recall@k``: evidences satisfied in the first k / R.
- ``map@k``: sum over evidences satisfied in the first k of the precision at the rank that first
  satisfies it / R.
- ``ndcg@k``: DCG / ideal DCG; DCG = sum of gain(i) / log2(i + 1); the ideal has the grades of all
  evidences, the highest first, one a rank, cut at k. ``ndcg_exp``: the same with 2^gain - 1
  (Burges et al. 2005, as gdeval of the TREC Web track has it).
- ``recall_cap@k``: evidences satisfied in the first k, at most k of them / min(R, k) (BEIR's
  capped recall).
- ``f1@k``: harmonic mean of precision@k and recall@k.
- ``r_precision``: relevant units in the first R / R.
- ``bpref``: sum over the evidences found of 1 - min(n, R) / min(N, R), and of 1 where n = 0, / R;
  n = judged non-relevant units above the rank that first satisfies it, N = all of the query, with
  evidences that no unit satisfies (Buckley and Voorhees 2004, as trec_eval's m_bpref.c has it).
- ``rbp(p)@k``: (1 - p) * sum of rel(i) * p^(i - 1) (Moffat and Zobel 2008).
- ``err(gmax)@k``: sum of s(i) / i * product over j < i of (1 - s(j)), with
  s(i) = (2^gain(i) - 1) / 2^gmax (Chapelle et al. 2009; gmax = 4 as in gdeval).
- ``judged@k``: judged units / units retrieved in the first k; null when there are none.

A unit is judged when it has a grade of 0 or more, and judged non-relevant when its highest grade is
below the level. A grade below 0 means pooled and not judged, as in trec_eval. The gains of nDCG and
ERR know no level.

A query without a positive judgment has null metrics: it has no value, and is counted apart. One
that has some, but none at the level asked for, has the value 0, as with ``trec_eval -l``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_inputs import Cell, check_grades, check_ranks, check_units, load
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF, RANKING_MEASURES, Metric
from rag_assets.evaluation.metric_sql import metrics_statement
from rag_assets.schemas import QUERY_METRICS
from rag_assets.scratch_duckdb import scratch_connection

WHOLE_RANKING = LARGEST_CUTOFF
"""Cut-off that cuts nothing."""

DEFAULT_METRICS = tuple(
    Metric(measure) for measure in ("hit_rate", "mrr", "ndcg", "recall", "precision", "map")
)

Source: TypeAlias = pa.Table | Path
"""A table, or the path of a Parquet file that holds one."""


def query_metrics(
    runs: Mapping[str, Source],
    relevant_units: Mapping[str, Source],
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
        relevant_units: name -> table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        judged_by: run -> the name of its relevant units.
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
    uncut = list({metric.column: metric._replace(cutoff=None) for metric in metrics}.values())
    for metric in uncut:
        if metric.measure not in RANKING_MEASURES:
            raise UsageError(f"{metric.column} is not computed from a ranking and its judgments")
    if not cells:
        return {}
    with ThreadPoolExecutor(1) as pool:
        units = pool.submit(check_units, runs)
        try:
            with scratch_connection() as connection:
                names = load(connection, runs, relevant_units, judged_by, queries, cells)
                check_ranks(connection, names)
                check_grades(connection, uncut)
                statement = metrics_statement(uncut, sorted({top_k for _, top_k in cells}))
                table = connection.sql(statement).to_arrow_table()
        finally:
            units.result()
    return _by_cell(table, sorted((names.index(run), top_k) for run, top_k in cells), names, cells)


def _by_cell(
    table: pa.Table, order: list[tuple[int, int]], names: list[str], cells: list[Cell]
) -> dict[Cell, pa.Table]:
    """Cut the result, in which each cell has one row a query, in order of run and cut-off."""
    measures = [pa.field(name, pa.float64()) for name in table.column_names[10:]]
    schema = pa.schema([*QUERY_METRICS.arrow(), *measures])
    table = table.drop_columns(["run", "top_k"]).cast(schema).combine_chunks()
    rows = table.num_rows // len(order)
    parts = {
        (names[run], top_k): QUERY_METRICS.check(table.slice(number * rows, rows))
        for number, (run, top_k) in enumerate(order)
    }
    return {cell: parts[cell] for cell in cells}
