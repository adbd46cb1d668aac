"""``warehouse.duckdb``: everything that is current, as tables and views for SQL.

Built from the current snapshots beside the old file and renamed, so a reader is never disturbed.
Numbers are tables; documents, chunks, queries, qrels, judgments and runs are views over the
Parquet files that the snapshots name; the history and the measurements are views over all of their
own files. What a column means stands in the file, as its comment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb

from rag_assets.errors import StoreError
from rag_assets.pipeline.bringing import OUTDATED
from rag_assets.pipeline.evaluations import (
    CURRENT,
    Evaluation,
    all_experiments,
    read_current,
)
from rag_assets.pipeline.history import fill_in
from rag_assets.pipeline.history_files import FOLDER as HISTORY_FOLDER
from rag_assets.pipeline.history_sql import evaluations_sql, metrics_sql, retrievers_sql
from rag_assets.pipeline.measurements import MEASUREMENTS
from rag_assets.pipeline.stages import STAGES
from rag_assets.schemas import HISTORY, HISTORY_METRICS, HISTORY_RETRIEVERS, TableSchema
from rag_assets.store.atomic import atomic_file, remove
from rag_assets.store.locks import locked
from rag_assets.store.plain_names import plain_file
from rag_assets.store.settings import StoreSettings
from rag_assets.store.sql_text import parquet_rows, quoted, quoted_pattern

_logger = logging.getLogger("rag_assets")

_TABLES = {
    "query_facts": "query_facts",
    "query_metrics": "metrics",
    "metrics_summary": "metrics_summary",
    "leaderboard": "leaderboard",
    "intervals": "intervals",
    "comparisons": "comparisons",
    "answerability": "answerability",
    "run_overlaps": "overlaps",
    "attributions": "attributions",
    "list_similarities": "list_similarities",
    "tuning": "tuning",
}
"""Table -> the asset whose partitions it unites; OVERLAPS is a reserved word in SQL."""

_HISTORY_VIEWS = {
    "evaluations": (HISTORY, evaluations_sql),
    "history": (HISTORY_METRICS, metrics_sql),
    "history_retrievers": (HISTORY_RETRIEVERS, retrievers_sql),
}
"""View -> its columns, and the statement that makes it of the files of the history."""

_MEASURED = {
    **dict.fromkeys(("asset", "retriever", "what", "fingerprint"), "VARCHAR"),
    "seconds": "DOUBLE",
    "amount": "BIGINT",
    **dict.fromkeys(("p50_ms", "p95_ms", "p99_ms"), "DOUBLE"),
    "bytes": "BIGINT",
    "cached": "BOOLEAN",
    "tokens": "BIGINT",
    "cost": "DOUBLE",
    "measured": "TIMESTAMPTZ",
}
"""Columns of ``measurements`` after the experiment's name; what a file does not have is null."""

_VIEWS = {
    "documents": ("documents",),
    "queries": ("queries",),
    "qrels": ("qrels",),
    "chunks": ("chunks",),
    "judgments": ("judgments",),
    "runs": tuple(name for name in STAGES if name.endswith("_runs")),
}
"""View -> the assets whose partitions it unites."""


def is_up_to_date(settings: StoreSettings) -> bool:
    """Return whether the warehouse is there, and no evaluation of another machine came since."""
    return settings.warehouse.exists() and not (settings.store / OUTDATED).exists()


def rebuild(settings: StoreSettings) -> Path:
    """Build the warehouse anew from all current snapshots and return its path.

    Raises:
        StoreError: an artifact that a snapshot names is damaged; the old file stays.
    """
    remove(settings.store / OUTDATED)  # first: what comes from now on may come too late
    roots = all_experiments(settings.store)
    for root in roots:
        _fill_in(root, settings.locks)
    try:
        with (
            locked(settings.locks / "warehouse.lock"),
            atomic_file(settings.warehouse) as temporary,
            plain_file(temporary) as file,
            duckdb.connect(str(file)) as connection,
        ):
            connection.begin()  # one transaction: else each comment on a column is one
            _fill(connection, settings.store, roots)
            connection.commit()
    except duckdb.Error as error:
        problem = " ".join(str(error).split())
        raise StoreError(f"cannot build {settings.warehouse}: {problem}") from error
    return settings.warehouse


def _fill_in(root: Path, locks: Path) -> None:
    try:
        fill_in(root, locks)
    except StoreError as error:
        _logger.warning("its history may lack evaluations: %s", error)


def _fill(connection: duckdb.DuckDBPyConnection, store: Path, roots: list[Path]) -> None:
    current = list(_readable(roots))
    for table, asset in _TABLES.items():
        _create(connection, "TABLE", table, list(_selects(current, (asset,))), asset)
    for view, assets in _VIEWS.items():
        _create(connection, "VIEW", view, list(_selects(current, assets)), assets[0])
    _create_history(connection, store)
    _create_measurements(connection, store)


def _readable(roots: Iterable[Path]) -> Iterator[tuple[Path, Evaluation]]:
    """Yield the current evaluations; one that cannot be read does not hide the others."""
    for root in roots:
        try:
            yield root, read_current(root)
        except StoreError as error:
            _logger.warning("left out of the warehouse: %s", error)


def _create(
    connection: duckdb.DuckDBPyConnection, kind: str, name: str, selects: list[str], asset: str
) -> None:
    if selects:
        connection.execute(f"CREATE {kind} {name} AS {' UNION ALL BY NAME '.join(selects)}")
        schema = STAGES[asset].schema
        if schema is not None:
            _document(connection, kind, name, schema)


def _selects(current: Iterable[tuple[Path, Evaluation]], assets: tuple[str, ...]) -> Iterable[str]:
    for root, evaluation in current:
        for entry in evaluation.entries:
            if entry.asset in assets:
                if not (root / entry.path).exists():
                    _logger.warning("left out of the warehouse: %s is gone", root / entry.path)
                    continue
                labels = {"experiment": evaluation.experiment, **entry.partition}
                columns = [_label(name, value) for name, value in labels.items()]
                yield f"SELECT {', '.join(columns)}, * FROM {parquet_rows(root / entry.path)}"


def _label(name: str, value: str) -> str:
    return f"{value if name == 'top_k' else quoted(value)} AS {name}"


def _create_history(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """Create views over the history itself: an evaluation without change needs no rebuild."""
    if not any(store.glob(f"*/{HISTORY_FOLDER}/*.parquet")):
        for name, (schema, _) in _HISTORY_VIEWS.items():
            connection.register("empty", schema.empty())
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM empty")
            connection.unregister("empty")
        return
    files = quoted_pattern(store, f"*/{HISTORY_FOLDER}/*.parquet")
    pointers = quoted_pattern(store, f"*/{CURRENT}")
    is_current = f"evaluation_id IN (SELECT content FROM read_text({pointers})) AS is_current"
    for name, (schema, sql) in _HISTORY_VIEWS.items():
        own = f"*, {is_current}" if name == "evaluations" else "*"
        connection.execute(f"CREATE VIEW {name} AS SELECT {own} FROM ({sql(files)})")
        _document(connection, "VIEW", name, schema)


def _document(
    connection: duckdb.DuckDBPyConnection, kind: str, name: str, schema: TableSchema
) -> None:
    """Write what a relation and its columns mean into the file: ``duckdb_columns()`` shows it."""
    there = {row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()}
    comments = [f"COMMENT ON {kind} {name} IS {quoted(schema.row)}"] + [
        f'COMMENT ON COLUMN {name}."{column.name}" IS {quoted(column.meaning)}'
        for column in schema.columns
        if column.name in there
    ]
    connection.execute("; ".join(comments))


def _create_measurements(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """Create a view over the files themselves: there is one for each thing ever measured.

    A thing belongs to the evaluation that ended next: a measurement is made before its id is.
    """
    files = f"*/{MEASUREMENTS}/*/*.json"
    types = ", ".join(f"{name}: '{kind}'" for name, kind in _MEASURED.items())
    rows = (
        f"SELECT parse_path(filename)[-4] AS experiment, * EXCLUDE filename FROM read_json("
        f"{quoted_pattern(store, files)}, columns = {{{types}}}, filename = true, "
        "format = 'newline_delimited', ignore_errors = true) "
        "WHERE what IS NOT NULL"  # a damaged file is a row of nulls
    )
    if any(store.glob(files)):
        connection.execute(
            "CREATE VIEW measurements AS SELECT m.*, e.evaluation_id "
            f"FROM ({rows}) m ASOF LEFT JOIN evaluations e "
            "ON m.experiment = e.experiment AND m.measured <= e.finished"
        )
    else:
        empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _MEASURED.items())
        evaluation = "NULL::VARCHAR AS evaluation_id"
        none = f"SELECT NULL::VARCHAR AS experiment, {empty}, {evaluation} WHERE false"
        connection.execute(f"CREATE TABLE measurements AS {none}")
