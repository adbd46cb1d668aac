"""Metrics of all queries of all runs at all cut-offs: ours in one SQL statement.

What they are is in :mod:`rag_assets.evaluation.measures`. Measures that packages add are computed
query by query, in Python.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.evaluation.measure import Evidence, JudgedRanking, RankingMeasure
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_inputs import Cell, check_grades, check_ranks, check_units, load
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF, RANKING_MEASURES, Metric
from rag_assets.evaluation.metric_sql import metrics_statement
from rag_assets.schemas import QUERY_METRICS
from rag_assets.scratch_duckdb import scratch_connection
from rag_assets.store.parquet_files import read_parquet

_Labels = Mapping[str, Sequence[tuple[str, str | None, int]]]
"""Query -> (evidence, unit, grade)."""


def added_metrics(
    runs: Mapping[str, pa.Table],
    relevant_units: Mapping[str, pa.Table],
    judged_by: Mapping[str, str],
    queries: Sequence[str],
    cells: Iterable[Cell],
    metrics: Sequence[Metric],
) -> dict[Cell, dict[str, list[float | None]]]:
    """Return (run, k) -> column -> the value of each query, in their order.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        relevant_units: name -> table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        judged_by: run -> the name of its relevant units.
        queries: ids.
        cells: the (run, k) pairs that are wanted.
        metrics: of measures that are a :class:`RankingMeasure`.

    Raises:
        UsageError: a measure fails, or gives what is no number from 0 to 1.
    """
    labels = {name: _labels(table) for name, table in relevant_units.items()}
    rankings = {name: _rankings(table) for name, table in runs.items()}
    measures = {metric: _measure(metric) for metric in metrics}
    columns: dict[Cell, dict[str, list[float | None]]] = {}
    for run, k in cells:
        judged = [
            judged_ranking(rankings[run].get(query, ()), labels[judged_by[run]].get(query, ()), k)
            for query in queries
        ]
        columns[run, k] = {
            metric.column: [
                _value(metric, measure, ranking, k, query)
                for query, ranking in zip(queries, judged, strict=True)
            ]
            for metric, measure in measures.items()
        }
    return columns


def judged_ranking(
    units: Sequence[str], labels: Sequence[tuple[str, str | None, int]], k: int
) -> JudgedRanking:
    """Return a ranking as its labels see it.

    Args:
        units: best first.
        labels: (evidence, unit that satisfies it, or None, grade).
        k: the cut-off.
    """
    ranks = {unit: rank for rank, unit in enumerate(units[:k], start=1)}
    grades: list[int | None] = [None] * len(ranks)
    evidences: dict[str, Evidence] = {}
    for name, unit, grade in labels:
        rank = ranks.get(unit) if unit is not None else None
        if rank is not None and grade >= 0:
            grades[rank - 1] = max(grade, grades[rank - 1] or 0)
        if grade > 0:
            evidence = evidences.get(name, Evidence(grade, None, 0))
            is_first = rank is not None and rank < (evidence.rank or math.inf)
            first = (rank, grade) if is_first else evidence[1:]
            evidences[name] = Evidence(max(grade, evidence.grade), *first)
    return JudgedRanking(grades, list(evidences.values()))


def _measure(metric: Metric) -> RankingMeasure:
    measure = MEASURE_TYPES[metric.measure].model_validate(dict(metric.params))
    if not isinstance(measure, RankingMeasure):
        raise TypeError(f"{metric.measure} is not computed query by query")
    return measure


def _labels(relevant_units: pa.Table) -> _Labels:
    labels = defaultdict(list)
    names = ("query_id", "evidence_id", "unit_id", "grade")
    columns = (relevant_units.column(name).to_pylist() for name in names)
    for query, *label in sorted(zip(*columns, strict=True), key=_no_none):
        labels[query].append(tuple(label))
    return labels


def _no_none(row: tuple[str, str, str | None, int]) -> tuple[object, ...]:
    return row[0], row[1], row[2] or "", row[3]


def _rankings(run: pa.Table) -> Mapping[str, Sequence[str]]:
    rankings = defaultdict(list)
    columns = (run.column(name).to_pylist() for name in ("query_id", "rank", "unit_id"))
    for query, _, unit in sorted(zip(*columns, strict=True)):
        rankings[query].append(unit)
    return rankings


def _value(
    metric: Metric, measure: RankingMeasure, ranking: JudgedRanking, k: int, query: str
) -> float | None:
    """Return the value of one query; None where nothing is relevant."""
    if not ranking.evidences:
        return None
    of = f"metric '{metric}' of {MEASURE_TYPES.owner(metric.measure)}"
    try:
        value = float(measure.value(ranking, k))
    except Exception as error:  # whatever the package does
        problem = f"failed on query '{query}': {type(error).__name__}: {error}"
        raise UsageError(f"{of} {problem}") from error
    if not 0 <= value <= 1:
        raise UsageError(f"{of} must lie from 0 to 1; found {value!r} for query '{query}'")
    return value


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
    added = [m for m in uncut if issubclass(MEASURE_TYPES[m.measure], RankingMeasure)]
    in_sql = [metric for metric in uncut if metric not in added]
    with ThreadPoolExecutor(1) as pool:
        units = pool.submit(check_units, runs)
        try:
            with scratch_connection() as connection:
                names = load(connection, runs, relevant_units, judged_by, queries, cells)
                check_ranks(connection, names)
                check_grades(connection, in_sql)
                statement = metrics_statement(in_sql, sorted({top_k for _, top_k in cells}))
                table = connection.sql(statement).to_arrow_table()
        finally:
            units.result()
    order = sorted((names.index(run), top_k) for run, top_k in cells)
    tables = _by_cell(table, order, names, cells)
    if not added:
        return tables
    ids = tables[cells[0]].column("query_id").to_pylist()
    columns = added_metrics(
        read_sources(runs), read_sources(relevant_units), judged_by, ids, cells, added
    )
    return {cell: _beside(tables[cell], columns[cell]) for cell in cells}


def read_sources(sources: Mapping[str, Source]) -> dict[str, pa.Table]:
    """Return tables as they are, and files read."""
    return {
        name: source if isinstance(source, pa.Table) else read_parquet(source)
        for name, source in sources.items()
    }


def _beside(table: pa.Table, columns: Mapping[str, Sequence[float | None]]) -> pa.Table:
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, pa.float64()))
    return table


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
