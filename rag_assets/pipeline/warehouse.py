"""``warehouse.duckdb``: everything that is current, as tables and views for SQL.

Built from the current snapshots beside the old file and renamed, so a reader is never disturbed.
Numbers are tables; documents, chunks, queries, qrels, judgments and runs are views over the
Parquet files that the snapshots name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb
from filelock import FileLock

from rag_assets.pipeline.evaluations import (
    FOLDER,
    Evaluation,
    all_experiments,
    read_current,
    read_evaluation,
)
from rag_assets.pipeline.measurements import Measurements
from rag_assets.store.atomic import atomic_file
from rag_assets.store.settings import StoreSettings

_TABLES = {"query_metrics": "metrics", "metrics_summary": "metrics_summary",
           "leaderboard": "leaderboard"}
"""Table -> the asset whose partitions it unites."""

_VIEWS = {
    "documents": ("documents",),
    "queries": ("queries",),
    "qrels": ("qrels",),
    "chunks": ("chunks",),
    "judgments": ("judgments",),
    "runs": ("lexical_runs", "embedding_runs", "fused_runs"),
}
"""View -> the assets whose partitions it unites."""


def rebuild(settings: StoreSettings) -> Path:
    """Build the warehouse anew from all current snapshots and return its path."""
    settings.locks.mkdir(parents=True, exist_ok=True)
    roots = all_experiments(settings.store)
    with (
        FileLock(settings.locks / "warehouse.lock"),
        atomic_file(settings.warehouse) as temporary,
        duckdb.connect(str(temporary)) as connection,
    ):
        _fill(connection, roots)
    return settings.warehouse


def _fill(connection: duckdb.DuckDBPyConnection, roots: list[Path]) -> None:
    current = [(root, read_current(root)) for root in roots]
    for table, asset in _TABLES.items():
        _create(connection, "TABLE", table, list(_selects(current, (asset,))))
    for view, assets in _VIEWS.items():
        _create(connection, "VIEW", view, list(_selects(current, assets)))
    _create_evaluations(connection, roots, {e.evaluation_id for _, e in current})
    _create_measurements(connection, roots)


def _create(
    connection: duckdb.DuckDBPyConnection, kind: str, name: str, selects: list[str]
) -> None:
    if selects:
        connection.execute(f"CREATE {kind} {name} AS {' UNION ALL BY NAME '.join(selects)}")


def _selects(
    current: Iterable[tuple[Path, Evaluation]], assets: tuple[str, ...]
) -> Iterable[str]:
    for root, evaluation in current:
        for entry in evaluation.entries:
            if entry.asset in assets:
                labels = {"experiment": evaluation.experiment, **entry.partition}
                columns = [_label(name, value) for name, value in labels.items()]
                own = f"read_parquet({_quoted(str(root / entry.path))}, hive_partitioning = false)"
                # A label that the file itself has, as the leaderboard has top_k, is not repeated.
                yield f"SELECT {', '.join(columns)}, * FROM {own}"


def _label(name: str, value: str) -> str:
    return f"{value if name == 'top_k' else _quoted(value)} AS {name}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _create_evaluations(
    connection: duckdb.DuckDBPyConnection, roots: list[Path], current: set[str]
) -> None:
    connection.execute(
        "CREATE TABLE evaluations (experiment VARCHAR, evaluation_id VARCHAR, started TIMESTAMPTZ, "
        "finished TIMESTAMPTZ, trigger VARCHAR, complete BOOLEAN, computed INTEGER, "
        "n_artifacts INTEGER, content_digest VARCHAR, is_current BOOLEAN)"
    )
    rows = []
    for root in roots:
        for file in sorted((root / FOLDER).glob("*.json")):
            e = read_evaluation(file)
            rows.append((e.experiment, e.evaluation_id, e.started, e.finished, e.trigger,
                         e.complete, e.computed, len(e.entries), e.content,
                         e.evaluation_id in current))
    _insert(connection, "evaluations", rows)


def _create_measurements(connection: duckdb.DuckDBPyConnection, roots: list[Path]) -> None:
    connection.execute(
        "CREATE TABLE measurements (experiment VARCHAR, what VARCHAR, fingerprint VARCHAR, "
        "seconds DOUBLE, amount BIGINT)"
    )
    rows = [
        (root.name, m["what"], m["fingerprint"], m["seconds"], m["amount"])
        for root in roots
        for m in Measurements(root / "measurements").all()
    ]
    _insert(connection, "measurements", rows)


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[object, ...]]
) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


