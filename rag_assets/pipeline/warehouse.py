"""``warehouse.duckdb``: everything that is current, as tables and views for SQL.

Built from the current snapshots beside the old file and renamed, so a reader is never disturbed.
Numbers are tables; documents, chunks, queries, qrels, judgments and runs are views over the
Parquet files that the snapshots name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluations import (
    CURRENT,
    FOLDER,
    Evaluation,
    all_experiments,
    read_current,
)
from rag_assets.pipeline.measurements import Measurements
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.atomic import atomic_file
from rag_assets.store.locks import locked
from rag_assets.store.settings import StoreSettings

_logger = logging.getLogger("rag_assets")

_EVALUATION_COLUMNS = {
    "experiment": "VARCHAR",
    "evaluation_id": "VARCHAR",
    "started": "TIMESTAMPTZ",
    "finished": "TIMESTAMPTZ",
    "trigger": "VARCHAR",
    "complete": "BOOLEAN",
    "computed": "INTEGER",
    "entries": "JSON[]",
    "content": "VARCHAR",
}
"""What of a snapshot file the view ``evaluations`` reads."""

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

_MEASUREMENT_COLUMNS = (
    "asset VARCHAR",
    "retriever VARCHAR",
    "what VARCHAR",
    "fingerprint VARCHAR",
    "seconds DOUBLE",
    "amount BIGINT",
    "p50_ms DOUBLE",
    "p95_ms DOUBLE",
    "p99_ms DOUBLE",
    "bytes BIGINT",
    "cached BOOLEAN",
    "tokens BIGINT",
    "cost DOUBLE",
)
"""The table ``measurements``; what a measurement does not have is null."""

_VIEWS = {
    "documents": ("documents",),
    "queries": ("queries",),
    "qrels": ("qrels",),
    "chunks": ("chunks",),
    "judgments": ("judgments",),
    "runs": tuple(name for name in STAGES if name.endswith("_runs")),
}
"""View -> the assets whose partitions it unites."""


def rebuild(settings: StoreSettings) -> Path:
    """Build the warehouse anew from all current snapshots and return its path.

    Raises:
        StoreError: an artifact that a snapshot names is damaged; the old file stays.
    """
    roots = all_experiments(settings.store)
    try:
        with (
            locked(settings.locks / "warehouse.lock"),
            atomic_file(settings.warehouse) as temporary,
            duckdb.connect(str(temporary)) as connection,
        ):
            _fill(connection, settings.store, roots)
    except duckdb.Error as error:
        problem = " ".join(str(error).split())
        raise StoreError(f"cannot build {settings.warehouse}: {problem}") from error
    return settings.warehouse


def _fill(connection: duckdb.DuckDBPyConnection, store: Path, roots: list[Path]) -> None:
    current = list(_readable(roots))
    for table, asset in _TABLES.items():
        _create(connection, "TABLE", table, list(_selects(current, (asset,))))
    for view, assets in _VIEWS.items():
        _create(connection, "VIEW", view, list(_selects(current, assets)))
    _create_evaluations(connection, store)
    _create_measurements(connection, roots)


def _readable(roots: Iterable[Path]) -> Iterator[tuple[Path, Evaluation]]:
    """Yield the current evaluations; one that cannot be read does not hide the others."""
    for root in roots:
        try:
            yield root, read_current(root)
        except StoreError as error:
            _logger.warning("left out of the warehouse: %s", error)


def _create(
    connection: duckdb.DuckDBPyConnection, kind: str, name: str, selects: list[str]
) -> None:
    if selects:
        connection.execute(f"CREATE {kind} {name} AS {' UNION ALL BY NAME '.join(selects)}")


def _selects(current: Iterable[tuple[Path, Evaluation]], assets: tuple[str, ...]) -> Iterable[str]:
    for root, evaluation in current:
        for entry in evaluation.entries:
            if entry.asset in assets:
                labels = {"experiment": evaluation.experiment, **entry.partition}
                columns = [_label(name, value) for name, value in labels.items()]
                own = f"read_parquet({_quoted(str(root / entry.path))}, hive_partitioning = false)"
                yield f"SELECT {', '.join(columns)}, * FROM {own}"


def _label(name: str, value: str) -> str:
    return f"{value if name == 'top_k' else _quoted(value)} AS {name}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _create_evaluations(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """Create a view over the snapshots themselves: one without change needs no rebuild."""
    if not any(store.glob(f"*/{CURRENT}")):
        connection.execute("CREATE TABLE evaluations (experiment VARCHAR, evaluation_id VARCHAR)")
        return
    snapshots = _quoted(str(store / "*" / FOLDER / "*.json"))
    pointers = _quoted(str(store / "*" / CURRENT))
    connection.execute(
        "CREATE VIEW evaluations AS SELECT experiment, evaluation_id, started, finished, trigger, "
        "complete, computed, len(entries) AS n_artifacts, content AS content_digest, "
        f"evaluation_id IN (SELECT content FROM read_text({pointers})) AS is_current "
        f"FROM read_json({snapshots}, columns = {_EVALUATION_COLUMNS})"
    )


def _create_measurements(connection: duckdb.DuckDBPyConnection, roots: list[Path]) -> None:
    connection.execute(
        f"CREATE TABLE measurements (experiment VARCHAR, {', '.join(_MEASUREMENT_COLUMNS)})"
    )
    names = [column.split()[0] for column in _MEASUREMENT_COLUMNS]
    rows = [
        (root.name, *[measured.get(name) for name in names])
        for root in roots
        for measured in Measurements(root / "measurements").all()
    ]
    _insert(connection, "measurements", rows)


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[object, ...]]
) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
