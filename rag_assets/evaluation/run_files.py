"""Reads and writes run files: TREC, lists as JSON lines, JSON or Parquet, by the file's name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.evaluation.json_files import (
    ERROR_KEY,
    IDS_KEY,
    is_json,
    is_json_lines,
    listed_run,
    read_lists,
    read_lists_and_failures,
    read_scores,
    run_of_lists,
)
from rag_assets.evaluation.parquet_runs import (
    ID_COLUMNS,
    RANK_COLUMN,
    is_parquet,
    read_parquet_run,
)
from rag_assets.evaluation.trec_files import ranked, read_run, read_run_lines
from rag_assets.trec_lines import COMMENT

TREC_ID = "document"
"""What the third field of a TREC run line is called."""


UNIT_COLUMNS = ("unit_id", "document_id", "doc_id", "chunk_id")
"""Where Parquet has what is judged; files that `export-run` writes have it in the first."""


class RunRow(NamedTuple):
    """One retrieved unit of a query: its line or row from 1, its id and its score.

    In JSON, which has no lines, it is the number of the unit in its query.
    """

    line: int
    unit_id: str
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
        query: [
            RunRow(number, item, score) for number, (item, score) in enumerate(scores.items(), 1)
        ]
        for query, scores in read_scores(path).items()
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
        rows = {
            query: _by_rank(own_rows, run.ranks, query, path) for query, own_rows in rows.items()
        }
    listed = run.ranks is not None
    return _checked(RunFile(path, run.id_column, listed=listed, rows=rows, failures={}))


def _by_rank(rows: list[RunRow], ranks: Sequence[int], query: str, path: Path) -> list[RunRow]:
    placed: dict[int, RunRow] = {}
    for row in rows:
        rank = ranks[row.line - 1]
        if rank in placed:
            problem = f"rank {rank} of query '{query}' is already in row {placed[rank].line}"
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
        if row.unit_id in lines:
            first = lines[row.unit_id]
            where = "" if first == row.line else f", first on line {first}"
            problem = f"'{row.unit_id}' stands twice for query '{query}'{where}"
            raise DataError(problem, file=run.path, line=row.line, key=run.key)
        lines[row.unit_id] = row.line


def write_run(run: pa.Table, path: Path, *, tag: str, failures: Mapping[str, str]) -> list[str]:
    """Write a run; a ``.gz`` after the name compresses TREC and JSON lines.

    TREC and JSON lines hold the ids of the judged units, Parquet every column of the run.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
        path: the file.
        tag: the last field of TREC lines.
        failures: query id -> why the retriever failed on it; JSON lines hold them.

    Returns:
        A line for each thing that the format cannot hold.

    Raises:
        DataError: an id holds white space and the format is TREC, or the file cannot be written.
    """
    notes = []
    if failures and not is_json_lines(path):
        notes.append(f"{len(failures)} failed queries are left out; .jsonl holds them")
    try:
        if is_parquet(path):
            pq.write_table(run, path, compression="zstd")
        elif is_json_lines(path):
            _write(path, _list_lines(run, failures))
        else:
            _write(path, _trec_lines(run, tag, path))
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", file=path) from error
    return notes


def _write(path: Path, lines: Iterator[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    # Without a time of its own in it, equal runs give equal bytes.
    is_zipped = path.suffix.lower() == ".gz"
    path.write_bytes(gzip.compress(content, mtime=0) if is_zipped else content)


def _trec_lines(run: pa.Table, tag: str, path: Path) -> Iterator[str]:
    for row in run.to_pylist():
        for name in ("query_id", "unit_id"):
            if row[name].split() != [row[name]]:
                problem = f"{name} {row[name]!r} holds white space, which parts the fields of TREC"
                raise DataError(f"{problem}; write .jsonl or .parquet", file=path)
        if row["query_id"].startswith(COMMENT):
            problem = f"query_id {row['query_id']!r} begins with {COMMENT}, a comment in TREC"
            raise DataError(f"{problem}; write .jsonl or .parquet", file=path)
        yield f"{row['query_id']} Q0 {row['unit_id']} {row['rank']} {row['score']!r} {tag}"


def _list_lines(run: pa.Table, failures: Mapping[str, str]) -> Iterator[str]:
    for query, rows in groupby(run.to_pylist(), key=lambda row: row["query_id"]):
        hits = [(row["unit_id"], row["score"]) for row in rows]
        ids, scores = [item for item, _ in hits], [score for _, score in hits]
        line = {"query_id": query, IDS_KEY: ids, "scores": scores}
        yield json.dumps(line, ensure_ascii=False)
    for query, reason in sorted(failures.items()):
        yield json.dumps({"query_id": query, ERROR_KEY: reason}, ensure_ascii=False)


def read_run_file(path: Path) -> pa.Table:
    """Read a run of any kind as a table of :data:`rag_assets.schemas.RUNS`.

    Raises:
        DataError: the file cannot be read, breaks its format, or repeats a document for a query.
    """
    if is_json_lines(path):
        return run_of_lists(path)
    if not (is_parquet(path) or is_json(path)):
        return read_run(path)
    run = read_run_rows(path, UNIT_COLUMNS)
    if run.listed:
        return listed_run({query: _hits(rows) for query, rows in run.rows.items()})
    return ranked({query: dict(_hits(rows)) for query, rows in run.rows.items()})


def read_hits(path: Path) -> tuple[dict[str, tuple[tuple[str, float], ...]], bool]:
    """Read what was retrieved for each query, and whether its order is the ranking.

    Raises:
        DataError: the file cannot be read, or breaks its format.
    """
    if is_json_lines(path):
        return {query.query_id: query.hits for query in read_lists(path)}, True
    if is_parquet(path) or is_json(path):
        run = read_run_rows(path, UNIT_COLUMNS)
        return {query: _hits(rows) for query, rows in run.rows.items()}, run.listed
    by_query: dict[str, list[tuple[str, float]]] = {}
    for line in read_run_lines(path):
        by_query.setdefault(line.query_id, []).append((line.document_id, line.score))
    return {query: tuple(hits) for query, hits in by_query.items()}, False


def _hits(rows: Iterable[RunRow]) -> tuple[tuple[str, float], ...]:
    return tuple((row.unit_id, row.score) for row in rows)
