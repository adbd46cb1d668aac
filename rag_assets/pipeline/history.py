"""The history of an experiment, for reading: every evaluation, and how a metric went over time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from rag_assets.errors import StoreError
from rag_assets.pipeline.evaluations import FOLDER, read_evaluation
from rag_assets.pipeline.history_files import HistoryFiles, as_rows
from rag_assets.pipeline.history_rows import history_table
from rag_assets.pipeline.history_sql import LISTS, metrics_sql
from rag_assets.pipeline.remote_sync import bring_history, bring_named, bring_records
from rag_assets.schemas import HISTORY
from rag_assets.store.atomic import TEMPORARY_MARK
from rag_assets.store.sql_text import quoted_path

_logger = logging.getLogger("rag_assets")

Row = dict[str, Any]

Statement = Callable[[str], str]
"""Gives SQL over files, see :mod:`rag_assets.pipeline.history_sql`."""


def fill_in(root: Path, locks: Path) -> int:
    """Add the evaluations that have a snapshot and no row, and return how many.

    A snapshot is without a row when it was written before there was a history, when a process was
    killed between the two, and when files of the history were deleted. The damaged file of one
    evaluation goes first, if its row can be made again.
    """
    bring_history(root, locks)
    files = HistoryFiles(root, locks)
    snapshots = {
        file.stem: file
        for file in (root / FOLDER).glob("*.json")
        if TEMPORARY_MARK not in file.name
    }
    for path in files.drop_damaged(snapshots):
        _logger.warning("%s was damaged; its row is made again from its snapshot", path)
    missing = sorted(snapshots.keys() - files.ids()) if snapshots else []
    found = []
    for name in missing:
        bring_named(root, name)
        try:
            found.append(history_table(root, [read_evaluation(snapshots[name])]))
        except StoreError as error:
            _logger.warning("left out of the history: %s", error)
    if found:
        files.add(pa.concat_tables(found))
    return len(found)


class History:
    """The evaluations of one experiment."""

    def __init__(self, root: Path, locks: Path | None) -> None:
        """Open the history of the experiment's folder ``root`` in the store.

        Rows that are missing are made again, unless there is no folder of lock files: then it is
        only read.
        """
        self.root = root
        self._files = HistoryFiles(root, locks)
        bring_records(root)
        if locks is not None:
            fill_in(root, locks)
        else:
            bring_history(root, None)

    def evaluations(self, last: int | None = None) -> list[Row]:
        """Return the evaluations, the oldest first: rows of HISTORY without its lists.

        Args:
            last: so many of the newest; None: all.
        """
        names = [name for name in HISTORY.arrow().names if name not in LISTS]
        if last is not None:
            return self._files.newest(names, last)
        return as_rows(self._files.table(names))

    def ids(self, *, complete: bool = False) -> list[str]:
        """Return the ids of all evaluations, or of the complete ones, the oldest first."""
        table = self._files.table(["evaluation_id", "complete"])
        rows = table.to_pylist()
        return [row["evaluation_id"] for row in rows if row["complete"] or not complete]

    def metric(
        self, metric: str, top_k: int, retrievers: Sequence[str] = (), since: str = ""
    ) -> list[Row]:
        """Return one row an evaluation, retriever and split that has the metric, the oldest first.

        Args:
            metric: its column in the query metrics.
            top_k: the cut-off.
            retrievers: only these; all when empty.
            since: id of the oldest evaluation that is wanted.
        """
        which = "metric = ? AND top_k = ? AND evaluation_id >= ?"
        values: list[object] = [metric, top_k, since]
        if retrievers:
            which += f" AND retriever IN ({', '.join('?' * len(retrievers))})"
            values += retrievers
        where = f"WHERE {which} ORDER BY evaluation_id, retriever, split"
        return self._ask(metrics_sql, where, values, since)

    def metrics(self, evaluations: Sequence[str]) -> list[Row]:
        """Return one row an evaluation, retriever, split, cut-off and metric, of some ids."""
        if not evaluations:
            return []
        which = f"evaluation_id IN ({', '.join('?' * len(evaluations))})"
        where = f"WHERE {which} ORDER BY evaluation_id"
        return self._ask(metrics_sql, where, evaluations, min(evaluations))

    def newest_first(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yield columns of evaluations, the newest first; older ones are read when wanted."""
        return self._files.newest_first(columns)

    def _ask(
        self, sql: Callable[[str], str], rest: str, values: Sequence[object], since: str
    ) -> list[Row]:
        def read() -> list[Row]:
            paths = self._files.paths(since)
            if not paths:
                return []
            self._files.check(since)
            files = ", ".join(quoted_path(path) for path in paths)
            try:
                with duckdb.connect() as connection:
                    connection.execute("SET TimeZone = 'UTC'")
                    found = connection.sql(f"FROM ({sql(f'[{files}]')}) {rest}", params=values)
                    return as_rows(found.to_arrow_table())
            except duckdb.Error as error:
                if not all(path.exists() for path in paths):
                    raise FileNotFoundError(str(self._files.folder)) from error
                problem = " ".join(str(error).split())
                raise StoreError(
                    f"cannot read the history in {self._files.folder}: {problem}"
                ) from error

        return self._files.again(read)
