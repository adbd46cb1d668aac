"""``warehouse.duckdb``: everything that is current, as tables and views for SQL.

Built from the current snapshots beside the old file and renamed, so a reader is never disturbed.
Numbers are tables; of every other asset that has rows there is a view over the Parquet files that
the snapshots name; the history and the measurements are views over all of their own files. Views
look for the files from where the DuckDB file lies (:class:`rag_assets.store.sql_paths.ViewPlace`).
What a column means stands in the file, as its comment. It is always built anew, as a whole: see
:mod:`rag_assets.pipeline.warehouse_time` for when.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

from rag_assets.engine.measurements import CHECKSUM, MEASURED_FILES
from rag_assets.errors import StoreError
from rag_assets.evaluation.list_similarities_stage import SIMILARITIES
from rag_assets.pipeline.evaluations import (
    CURRENT,
    Evaluation,
    SnapshotEntry,
    all_experiments,
    intact_path,
    read_current,
)
from rag_assets.pipeline.history import LISTS, evaluations_sql, fill_in, items_sql
from rag_assets.pipeline.history_files import HISTORY_DIR
from rag_assets.pipeline.stages import STAGES
from rag_assets.pipeline.warehouse_time import newest_source, write_ahead_log
from rag_assets.retrieval.base_runs_stage import UNITS_FILE
from rag_assets.schemas import HISTORY, TableSchema
from rag_assets.store.atomic import atomic_file, remove
from rag_assets.store.locks import locked
from rag_assets.store.settings import StoreSettings
from rag_assets.store.sql_paths import ViewPlace, parquet_rows, plain_file, quoted

Labels = Mapping[str, str]
"""Columns that say what rows are of: the experiment, and the values of the dimensions."""

_logger = logging.getLogger("rag_assets")

_TABLES = {
    "query_facts": ("query_facts",),
    "query_metrics": ("metrics",),
    "metrics_summary": ("metrics_summary",),
    "leaderboard": ("leaderboard",),
    "intervals": ("intervals",),
    "comparisons": ("comparisons",),
    "answerability": ("answerability",),
    "run_overlaps": ("overlaps",),
    "attributions": ("attributions",),
    "list_similarities": SIMILARITIES,
    "tuning": ("tuning",),
}
"""Table -> the assets whose partitions it unites; OVERLAPS is a reserved word in SQL."""

_HELD = frozenset(asset for assets in _TABLES.values() for asset in assets)

_HISTORY_VIEWS = {
    "history": "metrics",
    "history_retrievers": "retrievers",
    "history_answers": "answers",
    "history_judged": "judged",
}
"""View -> the column of the history whose items are its rows."""

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

_CHECKSUM = f', "{CHECKSUM}": "([0-9a-f]{{64}})"}}$'

_UNDAMAGED = (
    f"regexp_extract(text, {quoted(_CHECKSUM)}, 1) IN "
    f"('', sha256(regexp_replace(text, {quoted(_CHECKSUM)}, '}}')))"
)
"""Whether the text of a measurement is as it was written; an old one has no checksum."""

_RUNS = tuple(name for name in STAGES if name.endswith("_runs"))

_VIEWS = {
    **{
        name: (name,)
        for name, stage in STAGES.items()
        if stage.schema is not None and name not in (*_HELD, *_RUNS)
    },
    "runs": _RUNS,
}
"""View -> the assets whose partitions it unites: all that have rows and are no table."""

_INDEXES = ("lexical_index", "embedding_index")
"""Assets that are folders; the rows of an index are its units."""


def rebuild(settings: StoreSettings) -> Path:
    """Build the warehouse anew from all current snapshots and return its path.

    Raises:
        StoreError: an artifact that a snapshot names is damaged; the old file stays.
    """
    for root in all_experiments(settings.store):
        _fill_in(root, settings.locks)
    with locked(settings.locks / "warehouse.lock"):
        time = newest_source(settings)  # a pointer that moves meanwhile is newer
        builder = _Builder(settings, list(_readable(all_experiments(settings.store))))
        try:
            with atomic_file(settings.warehouse) as temporary:
                with plain_file(temporary) as file, duckdb.connect(str(file)) as connection:
                    connection.begin()  # one transaction: else each comment on a column is one
                    builder.fill(connection)
                    connection.commit()
                os.utime(temporary, ns=(time, time))
        except duckdb.Error as error:
            problem = " ".join(str(error).split())
            raise StoreError(f"cannot build {settings.warehouse}: {problem}") from error
        # It is of the file that was replaced, and would be played into the new one.
        remove(write_ahead_log(settings))
    return settings.warehouse


def _fill_in(root: Path, locks: Path) -> None:
    try:
        fill_in(root, locks)
    except StoreError as error:
        _logger.warning("its history may lack evaluations: %s", error)


def _readable(roots: Iterable[Path]) -> Iterator[tuple[Path, Evaluation]]:
    """Yield the current evaluations; one that cannot be read does not hide the others."""
    for root in roots:
        try:
            yield root, read_current(root)
        except StoreError as error:
            _logger.warning("left out of the warehouse: %s", error)


class _Builder:
    """Fills a new file."""

    def __init__(self, settings: StoreSettings, current: list[tuple[Path, Evaluation]]) -> None:
        self._store = settings.store
        self._current = current
        self._place = ViewPlace(settings)

    def fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create all tables and views."""
        for table, assets in _TABLES.items():
            selects = [_select(labels, parquet_rows(p)) for labels, p in self._files(assets)]
            self._create(connection, "TABLE", table, selects, assets[0])
        for view, assets in _VIEWS.items():
            selects = list(self._views(self._files(assets), STAGES[assets[0]].schema))
            self._create(connection, "VIEW", view, selects, assets[0])
        self._create(connection, "VIEW", "indexes", list(self._views(self._units())), "indexes")
        self._create_history(connection)
        self._create_measurements(connection)

    def _create(
        self,
        connection: duckdb.DuckDBPyConnection,
        kind: str,
        name: str,
        selects: list[str],
        asset: str,
    ) -> None:
        if not selects:
            return
        rows = " UNION ALL BY NAME ".join(selects)
        guarded = f"SELECT * FROM ({rows}) WHERE {self._place.guard}" if kind == "VIEW" else rows
        connection.execute(f"CREATE {kind} {name} AS {guarded}")
        stage = STAGES.get(asset)
        if stage is not None and stage.schema is not None:
            _document(connection, kind, name, stage.schema, stage.dimensions)

    def _views(
        self, files: Iterable[tuple[Labels, Path]], schema: TableSchema | None = None
    ) -> Iterator[str]:
        for labels, path in files:
            rows = self._place.parquet_rows(path.relative_to(self._store).as_posix())
            yield _select(labels, rows, _beside_labels(labels, schema))

    def _files(self, assets: tuple[str, ...]) -> Iterator[tuple[Labels, Path]]:
        """Yield the files of assets, every byte of which was checked, with what they are of."""
        for root, evaluation, entry in self._entries(assets):
            yield _labels(evaluation, entry), intact_path(root, evaluation, entry)

    def _units(self) -> Iterator[tuple[Labels, Path]]:
        """Yield the units of indexes; those of a remote store may be there alone."""
        for _, evaluation, entry in self._entries(_INDEXES):
            file = self._store / entry.path / UNITS_FILE
            if file.exists():
                yield {**_labels(evaluation, entry), "asset": entry.asset}, file

    def _entries(self, assets: tuple[str, ...]) -> Iterator[tuple[Path, Evaluation, SnapshotEntry]]:
        for root, evaluation in self._current:
            for entry in evaluation.entries:
                path = self._store / entry.path
                if entry.asset in assets and path.exists():
                    yield root, evaluation, entry
                elif entry.asset in assets and entry.asset not in _INDEXES:
                    _logger.warning("left out of the warehouse: %s is gone", path)

    def _create_history(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create views over the history itself: an evaluation without change needs no rebuild."""
        schemas = {
            "evaluations": HISTORY,
            **{view: LISTS[column] for view, column in _HISTORY_VIEWS.items()},
        }
        pattern = f"*/{HISTORY_DIR}/*.parquet"
        if not any(self._store.glob(pattern)):
            for name, schema in schemas.items():
                connection.register("empty", schema.empty())
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM empty")
                connection.unregister("empty")
            return
        files = self._place.files(pattern)
        rows = f"read_parquet({files}, union_by_name = true, hive_partitioning = false)"
        current = f"SELECT content FROM read_blob({self._place.files(f'*/{CURRENT}')})"
        statements = {
            "evaluations": f"SELECT *, encode(evaluation_id) IN ({current}) AS is_current "
            f"FROM ({evaluations_sql(rows)})",
            **{view: items_sql(rows, column) for view, column in _HISTORY_VIEWS.items()},
        }
        for name, statement in statements.items():
            connection.execute(
                f"CREATE VIEW {name} AS SELECT * FROM ({statement}) WHERE {self._place.guard}"
            )
            _document(connection, "VIEW", name, schemas[name])

    def _create_measurements(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create a view over the files themselves: there is one for each thing ever measured.

        A thing belongs to the evaluation that ended next: a measurement is made before its id is.
        """
        fields = json.dumps({"experiment": "VARCHAR", **_MEASURED})
        if any(self._store.glob(MEASURED_FILES)):
            rows = (
                f"SELECT unnest(try(from_json(text, {quoted(fields)}))) "
                "FROM (SELECT try(decode(content)) AS text "
                f"FROM read_blob({self._place.files(MEASURED_FILES)})) WHERE {_UNDAMAGED}"
            )
            connection.execute(
                "CREATE VIEW measurements AS SELECT m.*, e.evaluation_id "
                f"FROM (FROM ({rows}) WHERE what IS NOT NULL) m ASOF LEFT JOIN evaluations e "
                "ON m.experiment = e.experiment AND m.measured <= e.finished "
                f"WHERE {self._place.guard}"
            )
        else:
            empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _MEASURED.items())
            evaluation = "NULL::VARCHAR AS evaluation_id"
            none = f"SELECT NULL::VARCHAR AS experiment, {empty}, {evaluation} WHERE false"
            connection.execute(f"CREATE TABLE measurements AS {none}")


def _labels(evaluation: Evaluation, entry: SnapshotEntry) -> Labels:
    return {"experiment": evaluation.experiment, **entry.partition}


def _beside_labels(labels: Iterable[str], schema: TableSchema | None) -> str:
    """Return what renames the columns of a table that are called as a label is."""
    columns = schema.columns if schema is not None else ()
    same = [f"{one.name} AS {one.name}_1" for one in columns if one.name in labels]
    return f" RENAME ({', '.join(same)})" if same else ""


def _select(labels: Labels, rows: str, more: str = "") -> str:
    columns = [f"{v if name == 'top_k' else quoted(v)} AS {name}" for name, v in labels.items()]
    return f"SELECT {', '.join(columns)}, *{more} FROM {rows}"


def _document(
    connection: duckdb.DuckDBPyConnection,
    kind: str,
    name: str,
    schema: TableSchema,
    labels: Sequence[str] = (),
) -> None:
    """Write what a relation and its columns mean into the file: ``duckdb_columns()`` shows it."""
    there = {row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()}
    meanings = {
        f"{one.name}_1" if one.name in labels else one.name: one.meaning for one in schema.columns
    }
    comments = [f"COMMENT ON {kind} {name} IS {quoted(schema.row)}"] + [
        f'COMMENT ON COLUMN {name}."{column}" IS {quoted(meaning)}'
        for column, meaning in meanings.items()
        if column in there
    ]
    connection.execute("; ".join(comments))
