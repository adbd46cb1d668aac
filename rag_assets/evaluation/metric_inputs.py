"""What metrics are computed from: runs, relevant units and cells, as tables that SQL reads.

Refuses a run that is no ranking. The table of results is cut up again by cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import DataError
from rag_assets.evaluation.measures import LARGEST_GMAX
from rag_assets.evaluation.metric_names import Metric
from rag_assets.scratch_duckdb import scratch_connection
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.sql_paths import parquet_rows

if TYPE_CHECKING:
    import duckdb

Cell = tuple[str, int]
"""A run and a cut-off."""


def stacked(label: str, tables: Mapping[str, pa.Table], columns: Sequence[str]) -> pa.Table:
    """Return the chosen columns of all tables under each other, named in the column ``label``."""
    parts = []
    for name, table in tables.items():
        names = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), [name])
        parts.append(table.select(list(columns)).append_column(label, names.cast(pa.string())))
    return pa.concat_tables(parts)


def pairs(first: str, second: str, rows: Iterable[tuple[str, str]]) -> pa.Table:
    """Return pairs of names as a table of two columns."""
    listed = list(rows)
    columns = {first: [a for a, _ in listed], second: [b for _, b in listed]}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def cutoff_table(cells: Iterable[Cell]) -> pa.Table:
    """Return cells as a table with the columns ``run`` and ``top_k``."""
    listed = list(cells)
    runs, cutoffs = [run for run, _ in listed], [top_k for _, top_k in listed]
    return pa.table({"run": pa.array(runs, pa.string()), "top_k": pa.array(cutoffs, pa.int64())})


def by_cell(table: pa.Table, cells: Iterable[Cell]) -> dict[Cell, pa.Table]:
    """Return each cell's rows of a table with the columns ``run`` and ``top_k``, without those."""
    tables = {}
    for run, top_k in cells:
        mask = pc.and_(pc.equal(table["run"], run), pc.equal(table["top_k"], top_k))
        tables[run, top_k] = table.filter(mask).drop_columns(["run", "top_k"]).combine_chunks()
    return tables


RUN_COLUMNS = ("query_id", "rank", "score", "unit_id")
RELEVANT_UNIT_COLUMNS = ("query_id", "evidence_id", "unit_id", "grade")

BATCH_ROWS = 1_000_000
"""Rows that are checked at once."""

_GLOB = frozenset("*?[{")  # in a path, these would be read as a pattern

_CLASHES = """
    SELECT run, query_id, {what}, min({other}), max({other})
    FROM runs GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1
"""
_LISTS = """
    CREATE TEMP TABLE lists AS
    SELECT run, query_id, count(*) AS n, max(rank) AS last, sum(rank) AS ranks,
           sum(rank::DOUBLE * rank) AS squares
    FROM runs GROUP BY run, query_id
"""
_NOT_1_TO_N = """
    SELECT 1 FROM lists
    WHERE last != n OR 2 * ranks != n * (n + 1)
       OR abs(6 * squares / (n * (n + 1) * (2 * n + 1)) - 1) > 1e-12
    LIMIT 1
"""
_RETRIEVED = """
    CREATE TEMP VIEW retrieved AS
    SELECT run, query_id, top_k, {n} AS n_retrieved
    FROM {rows} JOIN cutoffs USING (run) {condition}
"""
_OF_LISTS = {"n": "least(n, top_k)", "rows": "lists", "condition": ""}
_OF_ROWS = {"n": "count(*)", "rows": "runs", "condition": "WHERE rank <= top_k GROUP BY ALL"}
_HIGHEST = """
    SELECT query_id, grade FROM relevant_units WHERE grade > ? ORDER BY grade DESC, query_id LIMIT 1
"""


def load(
    connection: duckdb.DuckDBPyConnection,
    runs: Mapping[str, pa.Table | Path],
    relevant_units: Mapping[str, pa.Table | Path],
    judged_by: Mapping[str, str],
    queries: pa.Table,
    cells: Iterable[tuple[str, int]],
) -> list[str]:
    """Make the tables that the statement reads, and return the names of the runs by number."""
    names, judged = sorted(runs), sorted(relevant_units)
    _stack(connection, "runs", "run", [runs[name] for name in names], RUN_COLUMNS)
    sources = [relevant_units[name] for name in judged]
    _stack(connection, "relevant_units", "judged", sources, RELEVANT_UNIT_COLUMNS)
    pairs = [(names.index(run), judged.index(by)) for run, by in judged_by.items() if run in runs]
    cuts = [(names.index(run), top_k) for run, top_k in cells]
    connection.register("judged_by", _number_pairs("run", "judged", pairs))
    connection.register("cutoffs", _number_pairs("run", "top_k", cuts))
    connection.register("queries", queries.select(["query_id"]))
    return names


def _stack(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    label: str,
    sources: Sequence[pa.Table | Path],
    columns: Sequence[str],
) -> None:
    """Make a view of all sources, with their numbers in the column ``label``."""
    parts = []
    for number, source in enumerate(sources):
        part = f"{name}_{number}"
        if isinstance(source, Path) and not _GLOB & set(str(source)):
            connection.execute(f"CREATE TEMP VIEW {part} AS FROM {parquet_rows(source)}")
        else:
            table = source if isinstance(source, pa.Table) else _read(source, columns)
            connection.register(part, table.select(list(columns)))
        parts.append(f"SELECT {number} AS {label}, {', '.join(columns)} FROM {part}")
    connection.execute(f"CREATE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    return read_parquet(path, list(columns))


def _number_pairs(first: str, second: str, pairs: Sequence[tuple[int, int]]) -> pa.Table:
    columns = {first: [a for a, _ in pairs], second: [b for _, b in pairs]}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def check_units(runs: Mapping[str, pa.Table | Path]) -> None:
    """Check that no unit stands twice for a query of a run.

    It has a connection of its own, so that it may run beside another statement. What is quick comes
    first: hashes are compared. Only where two are equal are the rows themselves looked at.

    Raises:
        DataError: names the run, the query, the unit, and where it stands.
    """
    names = sorted(runs)
    with scratch_connection() as connection:
        _stack(connection, "runs", "run", [runs[name] for name in names], RUN_COLUMNS)
        if _equal_hashes(connection):
            _refuse_twice(connection, names, "unit_id", "rank")


def check_ranks(connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
    """Check that no rank stands twice for a query of a run, and count what was retrieved.

    Ranks are taken to be 1 to n when their number, the last of them, their sum and the sum of their
    squares are. Makes the table ``retrieved`` (run, query_id, top_k, n_retrieved); a list that is
    empty has no row.

    Raises:
        DataError: names the run, the query, the rank, and who holds it.
    """
    connection.execute(_LISTS)
    has_gaps = connection.execute(_NOT_1_TO_N).fetchone() is not None
    if has_gaps:
        _refuse_twice(connection, names, "rank", "unit_id")
    connection.execute(_RETRIEVED.format(**(_OF_ROWS if has_gaps else _OF_LISTS)))


def _equal_hashes(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a list holds two equal hashes of units; equal units have equal hashes."""
    query = "SELECT hash(run, query_id) AS list, hash(unit_id) AS unit FROM runs"
    seen = [np.empty(0, np.uint64)]
    rest = np.empty((2, 0), np.uint64)
    for batch in connection.sql(query).to_arrow_reader(BATCH_ROWS):
        rows = np.concatenate([rest, [column.to_numpy() for column in batch.columns]], axis=1)
        starts = np.flatnonzero(np.append(True, rows[0, 1:] != rows[0, :-1]))
        if _repeats(rows[1], starts):  # also in the last list, which may go on in the next batch
            return True
        seen.append(rows[0, starts[:-1]])
        rest = rows[:, starts[-1] :]
    lists = np.concatenate([*seen, rest[0, :1]])
    if len(np.unique(lists)) == len(lists):
        return False
    # The rows of a list stand apart.
    hashes = connection.sql(query).fetchnumpy()
    return _repeats(hashes["list"] ^ hashes["unit"], np.zeros(1, np.int64))


def _repeats(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64]) -> bool:
    """Return whether a value stands twice in a list; many short lists sort faster than one."""
    lengths = np.diff(starts, append=len(values))
    for length in np.unique(lengths):
        rows = values[starts[lengths == length, None] + np.arange(length)]
        rows.sort(axis=1)
        if np.any(rows[:, 1:] == rows[:, :-1]):
            return True
    return False


def _refuse_twice(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str], what: str, other: str
) -> None:
    clash = connection.execute(_CLASHES.format(what=what, other=other)).fetchone()
    if clash is not None:  # else the hashes are equal by chance, or ranks are left out
        raise DataError(_twice(names[clash[0]], what, *clash[1:]))


def _twice(run: str, what: str, query_id: str, value: object, first: object, last: object) -> str:
    of = f"of query '{query_id}' in run '{run}'"
    if what == "rank":
        return f"rank {value} {of} is held by unit '{first}' and by unit '{last}'"
    return f"unit '{value}' {of} stands twice, at ranks {first} and {last}"


def check_grades(connection: duckdb.DuckDBPyConnection, metrics: Sequence[Metric]) -> None:
    """Check that no grade is higher than a metric of exponential gain allows.

    Raises:
        DataError: names the query and the grade, and what to ask for.
    """
    limits = dict.fromkeys(("ndcg_exp", "dcg_exp"), float(LARGEST_GMAX))
    limited = {
        m: limits.get(m.measure) or m.parameter("gmax")
        for m in metrics
        if m.measure in ("err", *limits)
    }
    for metric, highest in limited.items():
        clash = connection.execute(_HIGHEST, [highest]).fetchone()
        if clash is not None:
            query_id, grade = clash
            hint = f"; ask for err(gmax={grade})" if metric.measure == "err" else ""
            problem = f"query '{query_id}' has a grade of {grade}; {metric.column} allows at most"
            raise DataError(f"{problem} {highest:g}{hint}")
