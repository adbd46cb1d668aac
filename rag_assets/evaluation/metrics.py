"""Metrics of all queries of all runs at all cut-offs: ours in one SQL statement.

What they are is in :mod:`rag_assets.evaluation.measures`. Measures that packages add are computed
query by query, in Python. A run that is no ranking is refused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.measure import (
    Evidence,
    FunctionMeasure,
    JudgedRanking,
    Measure,
    RankingMeasure,
)
from rag_assets.evaluation.measures import LARGEST_GMAX, MEASURE_TYPES
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF, Metric, needs_size
from rag_assets.evaluation.metric_sql import metrics_statement
from rag_assets.schemas import QUERY_METRICS, column_values
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.sql_paths import parquet_rows, scratch_connection

if TYPE_CHECKING:
    import duckdb

WHOLE_RANKING = LARGEST_CUTOFF
"""Cut-off that cuts nothing."""

DEFAULT_METRICS = tuple(
    Metric(measure) for measure in ("hit_rate", "mrr", "ndcg", "recall", "precision", "map")
)

Cell = tuple[str, int]
"""A run and a cut-off."""

Source: TypeAlias = pa.Table | Path
"""A table, or the path of a Parquet file that holds one."""

_RUN_COLUMNS = ("query_id", "rank", "unit_id")
_LABEL_COLUMNS = ("query_id", "evidence_id", "unit_id", "grade")
_GLOB = frozenset("*?[{")  # in a path, these would be read as a pattern


def query_metrics(
    runs: Mapping[str, Source],
    relevant_units: Mapping[str, Source],
    judged_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
    metrics: Iterable[Metric] = DEFAULT_METRICS,
    sizes: Mapping[str, int] | None = None,
    functions: Mapping[str, FunctionMeasure] = MappingProxyType({}),
) -> dict[Cell, pa.Table]:
    """Compute metrics of every query, run and cut-off; a Parquet file is read by the engine itself.

    Args:
        runs: name -> runs.
        relevant_units: name -> relevant units.
        judged_by: run -> the name of its relevant units.
        queries: a table with the column ``query_id``; each gets a row, retrieved or not.
        cutoffs: the (run, k) pairs that are wanted.
        metrics: what to compute; their own cut-offs are not read, and those of texts are left out.
        sizes: run -> how many units it could have returned, for ``tn``.
        functions: measure -> a function that is one; without it the metric is left out.

    Returns:
        (run, k) -> query metrics with one column a metric (:attr:`Metric.column`), sorted by query.

    Raises:
        DataError: a unit occurs twice for a query of a run, or two have one rank; a grade is
            higher than a metric allows.
        UsageError: a measure in Python fails, or gives what is no number or out of its range;
            ``tn`` of a run without a size.
    """
    cells = list(dict.fromkeys(cutoffs))
    computed = {*MEASURE_TYPES, *functions}
    uncut = {m.column: m._replace(cutoff=None) for m in metrics if m.measure in computed}
    if not cells:
        return {}
    measures = {metric: _measure(metric, functions) for metric in uncut.values()}
    added = {m: measure for m, measure in measures.items() if isinstance(measure, RankingMeasure)}
    in_sql = [metric for metric in uncut.values() if metric not in added]
    with scratch_connection() as connection:
        names, judged = sorted(runs), sorted(relevant_units)
        _stack(connection, "runs", "run", runs, _RUN_COLUMNS)
        _stack(connection, "relevant_units", "judged", relevant_units, _LABEL_COLUMNS)
        pairs = [
            (names.index(run), judged.index(by)) for run, by in judged_by.items() if run in runs
        ]
        connection.register("judged_by", _number_pairs("run", "judged", pairs))
        numbers = [(names.index(run), top_k) for run, top_k in cells]
        connection.register("cutoffs", _number_pairs("run", "top_k", numbers))
        connection.register("queries", queries.select(["query_id"]))
        if sized := [metric.measure for metric in in_sql if needs_size(metric.measure)]:
            for name in set(names) - {*(sizes or {})}:
                problem = f"the number of units that {name} could return is not known"
                raise UsageError(f"{sized[0]}: {problem}")
            of_runs = [(names.index(name), n) for name, n in (sizes or {}).items()]
            connection.register("sizes", _number_pairs("run", "n_all", of_runs))
        _check_runs(connection, names)
        _check_grades(connection, in_sql)
        table = connection.sql(metrics_statement(in_sql)).to_arrow_table()
    columns = [pa.field(metric.column, pa.float64()) for metric in in_sql]
    schema = pa.schema([*QUERY_METRICS.arrow(), *columns])
    # Each cell has a row a query, in order of run and cut-off.
    table = table.drop_columns(["run", "top_k"]).cast(schema).combine_chunks()
    n_rows = table.num_rows // len(cells)
    tables = {cell: table.slice(place * n_rows, n_rows) for place, cell in enumerate(sorted(cells))}
    for name in judged if added else ():
        ids = tables[cells[0]]["query_id"].to_pylist()
        of_labels = [cell for cell in cells if judged_by[cell[0]] == name]
        for (run, k), ranked in judged_rankings(runs, relevant_units[name], ids, of_labels):
            for metric, measure in added.items():
                pairs_of = zip(ranked, ids, strict=True)
                values = [_value(metric, measure, ranking, k, query) for ranking, query in pairs_of]
                column = pa.array(values, pa.float64())
                tables[run, k] = tables[run, k].append_column(metric.column, column)
    return {cell: QUERY_METRICS.check(table) for cell, table in tables.items()}


def _stack(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    label: str,
    sources: Mapping[str, Source],
    columns: Sequence[str],
) -> None:
    """Make a view of all sources; the column ``label`` has numbers, in order of their names."""
    parts = []
    for number, source in enumerate(sources[key] for key in sorted(sources)):
        part = f"{name}_{number}"
        if isinstance(source, Path) and not _GLOB & set(str(source)):
            connection.execute(f"CREATE TEMP VIEW {part} AS FROM {parquet_rows(source)}")
        else:
            table = source if isinstance(source, pa.Table) else read_parquet(source, list(columns))
            connection.register(part, table.select(list(columns)))
        selected = ", ".join(f'"{column}"' for column in columns)
        parts.append(f"SELECT {number} AS {label}, {selected} FROM {part}")
    connection.execute(f"CREATE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")


def _number_pairs(first: str, second: str, pairs: Sequence[tuple[int, int]]) -> pa.Table:
    """Return pairs of numbers as a table of two columns."""
    columns = {first: [a for a, _ in pairs], second: [b for _, b in pairs]}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


_CLASHES = """
    SELECT run, query_id, {what}, min({other}), max({other})
    FROM runs GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1
"""
_HIGHEST = """
    SELECT query_id, grade FROM relevant_units WHERE grade > ? ORDER BY grade DESC, query_id LIMIT 1
"""


def _check_runs(connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
    """Refuse a unit or a rank that occurs twice for a query."""
    for what, other in (("unit_id", "rank"), ("rank", "unit_id")):
        repeated = f"SELECT count(*) > count(DISTINCT hash(run, query_id, {what})) FROM runs"
        if connection.execute(repeated).fetchall() == [(False,)]:
            continue
        clash = connection.execute(_CLASHES.format(what=what, other=other)).fetchone()
        if clash is not None:  # else hashes are equal by chance
            run, query_id, value, first, last = clash
            of = f"of query '{query_id}' in run '{names[run]}'"
            if what == "rank":
                problem = f"rank {value} {of} is given to unit '{first}' and to unit '{last}'"
            else:
                problem = f"unit '{value}' {of} occurs twice, at ranks {first} and {last}"
            raise DataError(problem)


def _check_grades(connection: duckdb.DuckDBPyConnection, metrics: Sequence[Metric]) -> None:
    """Refuse a grade that is higher than a metric of exponential gain allows."""
    for metric in metrics:
        highest = metric.parameter("gmax") if metric.measure == "err" else float(LARGEST_GMAX)
        is_exponential = metric.measure in ("err", "ndcg_exp", "dcg_exp")
        clash = connection.execute(_HIGHEST, [highest]).fetchone() if is_exponential else None
        if clash is not None:
            query_id, grade = clash
            hint = f"; ask for err(gmax={grade})" if metric.measure == "err" else ""
            problem = f"query '{query_id}' has a grade of {grade}; {metric.column} allows at most"
            raise DataError(f"{problem} {highest:g}{hint}")


def judged_rankings(
    runs: Mapping[str, Source], labels: Source, queries: Sequence[str], cells: Collection[Cell]
) -> Iterator[tuple[Cell, list[JudgedRanking]]]:
    """Yield, for each cell, the ranking of each query up to the cut, as the labels see it."""
    judged = _rows_by_query(labels, _LABEL_COLUMNS)
    for run in dict.fromkeys(name for name, _ in cells):
        units = _rows_by_query(runs[run], _RUN_COLUMNS)
        rankings = [([unit for _, unit in units[query]], judged[query]) for query in queries]
        for k in (k for name, k in cells if name == run):
            yield (run, k), [_judged_ranking(*ranking, k) for ranking in rankings]


def _rows_by_query(source: Source, columns: Sequence[str]) -> defaultdict[str, list[Any]]:
    """Return query -> its values in the other columns, sorted; a null sorts as an empty text."""
    table = source if isinstance(source, pa.Table) else read_parquet(source, columns)
    by_query: defaultdict[str, list[Any]] = defaultdict(list)
    rows = column_values(table, *columns)
    for query, *row in sorted(rows, key=lambda row: ["" if x is None else x for x in row]):
        by_query[query].append(tuple(row))
    return by_query


def _judged_ranking(
    units: Sequence[str], labels: Sequence[tuple[str, str | None, int]], k: int
) -> JudgedRanking:
    """Return a ranking, best first, as its labels (evidence, unit or None, grade) see it."""
    ranks = {unit: rank for rank, unit in enumerate(units[:k], start=1)}
    grades: list[int | None] = [None] * len(ranks)
    evidences: dict[str, Evidence] = {}
    pooled: dict[int, int] = {}
    for name, unit, grade in labels:
        rank = None if unit is None else ranks.get(unit)
        if rank is not None and grade >= 0:
            grades[rank - 1] = max(grade, grades[rank - 1] or 0)
        elif rank is not None:
            pooled[rank] = max(grade, pooled.get(rank, grade))
        if grade > 0:
            evidence = evidences.get(name, Evidence(grade, None, 0))
            is_first = rank is not None and rank < (evidence.rank or math.inf)
            first = (rank, grade) if is_first else evidence[1:]
            evidences[name] = Evidence(max(grade, evidence.grade), *first)
    open_ranks = {rank: grade for rank, grade in pooled.items() if grades[rank - 1] is None}
    return JudgedRanking(grades, list(evidences.values()), open_ranks)


def _measure(metric: Metric, functions: Mapping[str, FunctionMeasure]) -> Measure:
    of_caller = functions.get(metric.measure)
    return of_caller or MEASURE_TYPES[metric.measure].model_validate(dict(metric.params))


def _value(
    metric: Metric, measure: RankingMeasure, ranking: JudgedRanking, k: int, query: str
) -> float | None:
    """Return the value of one query; None where nothing is relevant."""
    if not ranking.evidences:
        return None
    is_named = metric.measure in MEASURE_TYPES
    of = f"metric '{metric}'" + (f" of {MEASURE_TYPES.owner(metric.measure)}" if is_named else "")
    try:
        value = float(measure.value(ranking, k))
    except Exception as error:  # whatever the package does
        problem = f"failed on query '{query}': {type(error).__name__}: {error}"
        raise UsageError(f"{of} {problem}") from error
    if not 0 <= value <= measure.highest:
        limits = f"from 0 to {measure.highest:.3g}"
        raise UsageError(f"{of} must lie {limits}; found {value!r} for query '{query}'")
    return value
