"""``warehouse.duckdb``: everything that is current, as tables and views for SQL.

Built from the current snapshots beside the old file and renamed, so a reader is never disturbed.
Numbers are tables; of every other asset that has rows there is a view over the Parquet files that
the snapshots name, and so of what indexes hold; the history and the measurements are views over all
of their own files. What a column means stands in the file, as its comment.

It is always built anew, as a whole. Its time says whether it is current and undamaged:
:mod:`rag_assets.pipeline.warehouse_time`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from rag_assets.engine.measurements import CHECKSUM, MEASURED_FILES
from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluations import (
    CURRENT,
    HISTORY_DIR,
    SnapshotEntry,
    all_experiments,
    read_current,
)
from rag_assets.pipeline.history import LISTS, evaluations_sql, fill_in, items_sql
from rag_assets.pipeline.stages import STAGES
from rag_assets.pipeline.stored_evaluation import StoredEvaluation
from rag_assets.pipeline.warehouse_time import newest_source, time_of, write_ahead_log
from rag_assets.retrieval.base_runs_stage import UNITS
from rag_assets.schemas import HISTORY, POSTINGS, TERMS, VECTORS, TableSchema
from rag_assets.store.atomic import atomic_file, remove
from rag_assets.store.locks import locked
from rag_assets.store.settings import StoreSettings
from rag_assets.store.sql_paths import parquet_rows, quoted, quoted_files

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
    "list_similarities": ("list_similarities",),
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

_HOLDINGS: Mapping[str, tuple[TableSchema | None, str, tuple[str, ...]]] = {
    "indexes": (None, "SELECT * FROM {0}", (UNITS,)),
    "terms": (TERMS, "SELECT term, document_frequency FROM {0}", ("terms",)),
    "postings": (
        POSTINGS,
        "SELECT term, chunk_id, weight::DOUBLE AS weight FROM {0} p "
        "JOIN {1} t ON t.file_row_number = p.number JOIN {2} c ON c.file_row_number = p.row",
        ("postings", "terms", "chunks"),
    ),
    "vectors": (VECTORS, "SELECT chunk_id, vector FROM {0}", ("vectors",)),
}
"""View -> its schema, and what selects the rows of a segment of an index out of these tables."""

_SUMMED = {
    "terms": "SELECT * EXCLUDE (document_frequency), "
    "sum(document_frequency)::BIGINT AS document_frequency FROM ({0}) GROUP BY ALL"
}
"""View -> what is said of an index where several segments say it."""


def rebuild(settings: StoreSettings) -> Path:
    """Build the warehouse anew from all current snapshots and return its path.

    Raises:
        StoreError: an artifact that a snapshot names is damaged; the old file stays.
    """
    for root in all_experiments(settings.store):
        with _warned("its history may lack evaluations"):
            fill_in(root, settings.locks)
    with locked(settings.locks / "warehouse.lock"):
        newest = newest_source(settings)  # a pointer that moves meanwhile is newer
        current = []
        for root in all_experiments(settings.store):
            with _warned("left out of the warehouse"):  # it does not hide the others
                current.append(StoredEvaluation(root, read_current(root)))
        try:
            # Made elsewhere: DuckDB opens no file below a path with a question mark.
            with atomic_file(settings.warehouse) as temporary, TemporaryDirectory() as place:
                made = Path(place) / "made"
                with duckdb.connect(str(made)) as connection:
                    connection.begin()  # one transaction: else each comment on a column is one
                    _Builder(settings.store, current, connection).fill()
                    connection.commit()
                shutil.copyfile(made, temporary)
                time = time_of(settings, temporary, newest)
                os.utime(temporary, ns=(time, time))
        except duckdb.Error as error:
            problem = " ".join(str(error).split())
            raise StoreError(f"cannot build {settings.warehouse}: {problem}") from error
        # It is of the file that was replaced, and would be played into the new one.
        remove(write_ahead_log(settings))
    return settings.warehouse


@contextmanager
def _warned(what: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        _logger.warning("%s: %s", what, error)


@dataclass(frozen=True)
class _Builder:
    """Fills a new file."""

    store: Path
    current: list[StoredEvaluation]
    connection: duckdb.DuckDBPyConnection

    def fill(self) -> None:
        """Create all tables and views."""
        for kind, relations in (("TABLE", _TABLES), ("VIEW", _VIEWS)):
            for name, assets in relations.items():
                stage, selects = STAGES[assets[0]], list(self._tables(assets))
                self._create(kind, name, selects, stage.schema, stage.dimensions)
        for name, (schema, select, files) in _HOLDINGS.items():
            self._create("VIEW", name, list(self._held(name, schema, select, files)), schema)
        self._create_history()
        self._create_measurements()

    def _create(
        self,
        kind: str,
        name: str,
        selects: Sequence[str],
        schema: TableSchema | None = None,
        labels: Sequence[str] = (),
    ) -> None:
        """Create a relation, and write into the file what it and its columns mean."""
        if not selects:
            return
        rows = " UNION ALL BY NAME ".join(selects)
        self.connection.execute(f"CREATE {kind} {name} AS {rows}")
        if schema is None:
            return
        columns = {row[0] for row in self.connection.execute(f"DESCRIBE {name}").fetchall()}
        comments = [f"COMMENT ON {kind} {name} IS {quoted(schema.row)}"]
        for declared in schema.columns:
            column = f"{declared.name}_1" if declared.name in labels else declared.name
            if column in columns:
                meaning = quoted(declared.meaning)
                comments.append(f'COMMENT ON COLUMN {name}."{column}" IS {meaning}')
        self.connection.execute("; ".join(comments))

    def _tables(self, assets: tuple[str, ...]) -> Iterator[str]:
        """Yield what selects the rows of each partition of assets, every byte of them checked."""
        for stored, entry in self._entries(assets):
            if stored.exists(entry):
                labels = {"experiment": stored.evaluation.experiment, **entry.partition}
                rows = parquet_rows(stored.file_of(entry))
                yield _select(labels, rows, STAGES[entry.asset].schema)
            else:
                _logger.warning("left out of the warehouse: %s is gone", self.store / entry.path)

    def _held(
        self, view: str, schema: TableSchema | None, select: str, names: tuple[str, ...]
    ) -> Iterator[str]:
        """Yield what selects from indexes that have these tables; a remote one may be elsewhere."""
        for stored, entry in self._entries(_INDEXES):
            folder, experiment = self.store / entry.path, stored.evaluation.experiment
            labels = {"experiment": experiment, **entry.partition, "asset": entry.asset}
            firsts = sorted(folder.glob(f"{names[0]}*.parquet"))
            segments = [
                select.format(*(parquet_rows(folder / f"{name}{end}") for name in names))
                for end in (file.name.removeprefix(names[0]) for file in firsts)
            ]
            if segments:
                rows = " UNION ALL ".join(segments)
                yield _select(labels, f"({_SUMMED.get(view, '{0}').format(rows)})", schema)

    def _entries(self, assets: tuple[str, ...]) -> Iterator[tuple[StoredEvaluation, SnapshotEntry]]:
        for stored in self.current:
            for entry in stored.evaluation.entries:
                if entry.asset in assets:
                    yield stored, entry

    def _create_history(self) -> None:
        """Create views over the history itself: an evaluation without change needs no rebuild."""
        schemas = {
            "evaluations": HISTORY,
            **{view: LISTS[column] for view, column in _HISTORY_VIEWS.items()},
        }
        pattern = f"*/{HISTORY_DIR}/*.parquet"
        if not any(self.store.glob(pattern)):
            for name, schema in schemas.items():
                self.connection.from_arrow(schema.empty()).create(name)
            return
        files = quoted_files(self.store, pattern)
        rows = f"read_parquet({files}, union_by_name = true, hive_partitioning = false)"
        pointers = f"SELECT content FROM read_blob({quoted_files(self.store, f'*/{CURRENT}')})"
        statements = {
            "evaluations": f"SELECT *, encode(evaluation_id) IN ({pointers}) AS is_current "
            f"FROM ({evaluations_sql(rows)})",
            **{view: items_sql(rows, column) for view, column in _HISTORY_VIEWS.items()},
        }
        for name, statement in statements.items():
            self._create("VIEW", name, [statement], schemas[name])

    def _create_measurements(self) -> None:
        """Create a view over the files themselves: there is one for each thing ever measured.

        A thing belongs to the evaluation that ended next: a measurement is made before its id is.
        """
        if not any(self.store.glob(MEASURED_FILES)):
            kinds = {"experiment": "VARCHAR", **_MEASURED, "evaluation_id": "VARCHAR"}
            columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
            self.connection.execute(f"CREATE TABLE measurements ({columns})")
            return
        fields = quoted(json.dumps({"experiment": "VARCHAR", **_MEASURED}))
        files = quoted_files(self.store, MEASURED_FILES)
        rows = (
            f"SELECT unnest(try(from_json(text, {fields}))) FROM "
            f"(SELECT try(decode(content)) AS text FROM read_blob({files})) WHERE {_UNDAMAGED}"
        )
        statement = (
            "SELECT m.*, e.evaluation_id "
            f"FROM (FROM ({rows}) WHERE what IS NOT NULL) m ASOF LEFT JOIN evaluations e "
            "ON m.experiment = e.experiment AND m.measured <= e.finished"
        )
        self._create("VIEW", "measurements", [statement])


def _select(labels: Mapping[str, str], rows: str, schema: TableSchema | None) -> str:
    """Return what selects rows, with columns that say what they are of.

    A column of the rows that is called as one of these gets another name.
    """
    columns = [f"{v if name == 'top_k' else quoted(v)} AS {name}" for name, v in labels.items()]
    same = [column.name for column in (schema.columns if schema else ()) if column.name in labels]
    renamed = ", ".join(f"{name} AS {name}_1" for name in same)
    more = f" RENAME ({renamed})" if renamed else ""
    return f"SELECT {', '.join(columns)}, *{more} FROM {rows}"
