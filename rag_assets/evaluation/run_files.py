"""Reads run files of any kind: TREC, lists as JSON lines, JSON or Parquet, by the file's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rag_assets.errors import DataError
from rag_assets.evaluation.list_files import IDS_KEY, is_json_lines, read_lists_and_failures
from rag_assets.evaluation.nested_files import is_json, read_scores
from rag_assets.evaluation.parquet_runs import (
    ID_COLUMNS,
    RANK_COLUMN,
    is_parquet,
    read_parquet_run,
)
from rag_assets.evaluation.trec_files import read_run_lines

TREC_ID = "document"
"""What the third field of a TREC run line is called."""


class RunRow(NamedTuple):
    """One retrieved unit of a query: its line or row from 1, its id and its score.

    In JSON, which has no lines, it is the number of the unit in its query.
    """

    line: int
    item_id: str
    score: float


class RunFile(NamedTuple):
    """What a run file holds.

    Attributes:
        path: the file.
        key: the key or column of the ids.
        listed: the order of a query's rows is the ranking; otherwise scores decide.
        rows: query id -> its rows, every id once; a list may be empty.
        failures: query id -> why the retriever failed on it.
    """

    path: Path
    key: str
    listed: bool
    rows: Mapping[str, list[RunRow]]
    failures: Mapping[str, str]


def read_run_rows(path: Path, id_columns: Sequence[str] = ID_COLUMNS) -> RunFile:
    """Read a run file; ``.jsonl``, ``.json`` and ``.parquet`` by name, any other is TREC.

    Args:
        path: the file.
        id_columns: of Parquet, where ids are looked for, the first that is there.

    Raises:
        DataError: the file cannot be read or breaks its format, or an id or a rank stands twice
            for a query; names the file, the line or row, and the key.
    """
    if is_parquet(path):
        return _parquet(path, id_columns)
    if is_json_lines(path):
        return _lists(path)
    if is_json(path):
        return _nested(path)
    rows: dict[str, list[RunRow]] = {}
    for line in read_run_lines(path):
        row = RunRow(line.line, line.document_id, line.score)
        rows.setdefault(line.query_id, []).append(row)
    if not rows:
        raise DataError("holds no run lines", file=path)
    return _checked(RunFile(path, TREC_ID, listed=False, rows=rows, failures={}))


def _lists(path: Path) -> RunFile:
    lists, failures = read_lists_and_failures(path)
    rows = {
        query.query_id: [RunRow(query.line, item, score) for item, score in query.hits]
        for query in lists
    }
    return _checked(RunFile(path, IDS_KEY, listed=True, rows=rows, failures=failures))


def _nested(path: Path) -> RunFile:
    rows = {
        query: [RunRow(number, item, score) for number, (item, score) in enumerate(own.items(), 1)]
        for query, own in read_scores(path).items()
    }
    return RunFile(path, TREC_ID, listed=False, rows=rows, failures={})


def _parquet(path: Path, id_columns: Sequence[str]) -> RunFile:
    run = read_parquet_run(path, id_columns)
    rows: dict[str, list[RunRow]] = {}
    for number, (query, item, score) in enumerate(
        zip(run.query_ids, run.ids, run.scores, strict=True), 1
    ):
        rows.setdefault(query, []).append(RunRow(number, item, score))
    if run.ranks is not None:
        rows = {query: _by_rank(found, run.ranks, query, path) for query, found in rows.items()}
    listed = run.ranks is not None
    return _checked(RunFile(path, run.id_column, listed=listed, rows=rows, failures={}))


def _by_rank(rows: list[RunRow], ranks: Sequence[int], query: str, path: Path) -> list[RunRow]:
    placed: dict[int, RunRow] = {}
    for row in rows:
        rank = ranks[row.line - 1]
        if rank in placed:
            problem = f"rank {rank} of query '{query}' stands already in row {placed[rank].line}"
            raise DataError(problem, file=path, line=row.line, key=RANK_COLUMN)
        placed[rank] = row
    return [placed[rank] for rank in sorted(placed)]


def _checked(run: RunFile) -> RunFile:
    for query, rows in run.rows.items():
        _check_once(query, rows, run)
    return run


def _check_once(query: str, rows: Iterable[RunRow], run: RunFile) -> None:
    lines: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.line):
        if row.item_id in lines:
            first = lines[row.item_id]
            where = "" if first == row.line else f", first on line {first}"
            problem = f"'{row.item_id}' stands twice for query '{query}'{where}"
            raise DataError(problem, file=run.path, line=row.line, key=run.key)
        lines[row.item_id] = row.line
