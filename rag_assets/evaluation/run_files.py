"""Reads and writes run files; a name says which of four layouts it is, ``.gz`` after it or not.

- TREC: ``query Q0 document rank score tag`` a line, or MS MARCO's ``query document rank``
  (:mod:`rag_assets.evaluation.trec_files`); any name that is none of the others.
- ``.jsonl``: one query a line, with the list of what was retrieved for it, as AutoRAG names them:
  ``{"qid": "q1", "retrieved_ids": ["d3", "d1"], "retrieve_scores": [2.5, 1.0]}``. ``query_id`` and
  ``scores`` are taken too. Without scores, that of rank i is 1 / i. A line with an ``error`` says
  why a query failed. Other keys are ignored.
- ``.json``: one object, as ranx and pytrec_eval have it: query to document to score.
- ``.parquet``: one retrieved unit of one query a row, with ``query_id`` (``q_id`` in ranx), an id
  (``chunk_id``, ``unit_id``, ``document_id`` or ``doc_id``, the first that is there), and ``rank``,
  ``score`` or both. A rank goes before a score.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.evaluation.trec_files import read_run_lines
from rag_assets.ordering import byte_order_ranks
from rag_assets.schemas import RUNS
from rag_assets.sources.fields import Place, Row, identifier, shown
from rag_assets.sources.row_files import ParquetFile
from rag_assets.sources.strict_json import read_object, read_objects
from rag_assets.text_files import suffix
from rag_assets.trec_lines import COMMENT

TREC_ID = "document"
"""What the third field of a TREC run line is called."""

QUERY_KEYS = ("qid", "query_id")
IDS_KEY = "retrieved_ids"
SCORES_KEYS = ("retrieve_scores", "scores")
ERROR_KEY = "error"
HITS_KEY = "hits"
"""Texts and spans; see :mod:`rag_assets.retrieval.imported.run_file`."""

QUERY_COLUMNS = ("query_id", "q_id")
ID_COLUMNS = ("chunk_id", "unit_id", "document_id", "doc_id")
UNIT_COLUMNS = ("unit_id", "document_id", "doc_id", "chunk_id")
"""Where Parquet has what is judged; files that `export-run` writes have it in the first."""

RANK_COLUMN = "rank"
SCORE_COLUMN = "score"

_NUMBERS = 'must be {"query": {"document": number}}'


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
        rows: query id -> its rows; a list may be empty.
        failures: query id -> why the retriever failed on it.
    """

    path: Path
    key: str
    listed: bool
    rows: Mapping[str, list[RunRow]]
    failures: Mapping[str, str]

    @property
    def hits(self) -> dict[str, tuple[tuple[str, float], ...]]:
        """Query id -> (id, score) in the order of the file."""
        return {
            query: tuple((row.unit_id, row.score) for row in rows)
            for query, rows in self.rows.items()
        }


def is_json(path: Path) -> bool:
    """Return whether a file's name says that it holds one JSON value."""
    return suffix(path) == ".json"


def is_json_lines(path: Path) -> bool:
    """Return whether a file's name says that it holds JSON lines."""
    return suffix(path) == ".jsonl"


def is_parquet(path: Path) -> bool:
    """Return whether a file's name says that it is Parquet."""
    return path.suffix.lower() in {".parquet", ".pq"}


def read_run_rows(
    path: Path, id_columns: Sequence[str] = ID_COLUMNS, *, repeats: bool = False
) -> RunFile:
    """Read a run file of any layout.

    Args:
        path: the file.
        id_columns: of Parquet, where ids are looked for, the first that is there.
        repeats: allow an id to stand twice for a query.

    Raises:
        DataError: the file cannot be read or breaks its format, or an id or a rank stands twice
            for a query; names the file, the line or row, and the key.
    """
    if is_parquet(path):
        run = _read_parquet(path, id_columns)
    elif is_json_lines(path):
        run = _read_lists(path)
    elif is_json(path):
        run = _read_nested(path)
    else:
        rows: dict[str, list[RunRow]] = {}
        for line, query_id, document_id, score in read_run_lines(path):
            rows.setdefault(query_id, []).append(RunRow(line, document_id, score))
        run = RunFile(path, TREC_ID, listed=False, rows=rows, failures={})
    if not run.rows and not run.failures:
        raise DataError("holds no queries", file=path)
    if not repeats:
        for query_id, own_rows in run.rows.items():
            _refuse_repeats(run, query_id, own_rows)
    return run


def read_run_file(path: Path) -> pa.Table:
    """Read a run of any layout as a table of :data:`rag_assets.schemas.RUNS`.

    Raises:
        DataError: as :func:`read_run_rows`; or the file tells of queries that failed, which cannot
            be scored.
    """
    run = read_run_rows(path, UNIT_COLUMNS)
    if run.failures:
        query_id, reason = next(iter(run.failures.items()))
        problem = f"says that query {shown(query_id)} failed ({reason}); score the others without"
        raise DataError(f"{problem} such lines: {len(run.failures)}", file=path, key=ERROR_KEY)
    if not run.listed:
        return ranked({query_id: dict(hits) for query_id, hits in run.hits.items()})
    columns: dict[str, list[object]] = {name: [] for name in RUNS.arrow().names}
    for query_id, hits in run.hits.items():
        for rank, (unit, score) in enumerate(hits, 1):
            _append(columns, (query_id, rank, score, unit, unit, unit))
    return RUNS.check(pa.table(columns, schema=RUNS.arrow()))


def ranked(queries: Mapping[str, Mapping[str, float]]) -> pa.Table:
    """Return scores (query id -> document id -> score) as a table of runs.

    As trec_eval does, a query's documents are ranked by score descending, then by the bytes of
    their ids descending; ranks in the file are ignored.
    """
    columns: dict[str, list[object]] = {name: [] for name in RUNS.arrow().names}
    for query_id, scores in queries.items():
        ids = list(scores)
        order = byte_order_ranks(ids)
        best = sorted(range(len(ids)), key=lambda i: (-scores[ids[i]], -order[i]))
        for rank, i in enumerate(best, 1):
            _append(columns, (query_id, rank, scores[ids[i]], ids[i], ids[i], ids[i]))
    return RUNS.check(pa.table(columns, schema=RUNS.arrow()))


def _append(columns: Mapping[str, list[object]], values: Iterable[object]) -> None:
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)


def _refuse_repeats(run: RunFile, query_id: str, rows: Iterable[RunRow]) -> None:
    lines: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.line):
        if row.unit_id in lines:
            first = lines[row.unit_id]
            where = "" if first == row.line else f", first on line {first}"
            problem = f"'{row.unit_id}' stands twice for query '{query_id}'{where}"
            problem += "; a unit is retrieved once (`score --dialect autorag` allows repetitions)"
            raise DataError(problem, file=run.path, line=row.line, key=run.key)
        lines[row.unit_id] = row.line


def _read_lists(path: Path) -> RunFile:
    rows: dict[str, list[RunRow]] = {}
    failures: dict[str, str] = {}
    for place, query_id, row in query_objects(path):
        if row.get(ERROR_KEY) is not None:
            failures[query_id] = failure_reason(row, place)
        else:
            rows[query_id] = [RunRow(place.line or 0, *hit) for hit in _listed_hits(row, place)]
    return RunFile(path, IDS_KEY, listed=True, rows=rows, failures=failures)


def query_objects(path: Path) -> Iterator[tuple[Place, str, Row]]:
    """Yield place, query id and object of each line of JSON lines.

    Raises:
        DataError: the file cannot be read, a line is no such object, or a query stands twice.
    """
    lines: dict[str, int] = {}
    for number, row in read_objects(path):
        place = Place(path, number)
        key = next((key for key in QUERY_KEYS if key in row), QUERY_KEYS[0])
        query_id = identifier(row, key, place)
        if query_id in lines:
            raise place.error(f"query '{query_id}' stands already on line {lines[query_id]}", key)
        lines[query_id] = number
        yield place, query_id, row


def failure_reason(row: Row, place: Place) -> str:
    """Return why a query failed, as its line says.

    Raises:
        DataError: it is no text, or the line has a list too.
    """
    reason = row[ERROR_KEY]
    if not isinstance(reason, str) or not reason.strip():
        raise place.error("must be a text that is not empty", ERROR_KEY)
    if row.get(IDS_KEY):
        raise place.error(f"stands beside `{IDS_KEY}`; a query failed or has a list", ERROR_KEY)
    return " ".join(reason.split())


def _listed_hits(row: Row, place: Place) -> Iterator[tuple[str, float]]:
    if HITS_KEY in row and IDS_KEY not in row:
        problem = "are texts or spans, which a retriever reads with `chunking: own`"
        raise place.error(problem, HITS_KEY)
    if IDS_KEY not in row:
        names = ", ".join(map(str, list(row)[:10]))
        raise place.error(f"is missing; found keys: {names}", IDS_KEY)
    ids = row[IDS_KEY]
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise place.error("must be a list of texts", IDS_KEY)
    key = next((key for key in SCORES_KEYS if row.get(key) is not None), None)
    scores = [1 / rank for rank in range(1, len(ids) + 1)] if key is None else row[key]
    if not isinstance(scores, list) or not all(map(_is_number, scores)):
        raise place.error("must be a list of finite numbers", key)
    if len(scores) != len(ids):
        raise place.error(f"has {len(scores)} scores for {len(ids)} ids", key)
    return zip(ids, map(float, scores), strict=True)


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; neither JSON nor our Parquet has NaN here."""
    is_other = isinstance(value, bool)
    return not is_other and isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _read_nested(path: Path) -> RunFile:
    rows = {
        query_id: [
            RunRow(number, item, float(score)) for number, (item, score) in enumerate(hits, 1)
        ]
        for query_id, hits in nested_numbers(path)
    }
    return RunFile(path, TREC_ID, listed=False, rows=rows, failures={})


def nested_numbers(path: Path) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Yield each query of one JSON object with its documents and their numbers.

    Raises:
        DataError: the file cannot be read, is not of this form, a number is not finite, or a query
            or a document of it stands twice; names the file and the key.
    """
    for query_id, documents in read_object(path).items():
        if not query_id or not isinstance(documents, dict):
            raise DataError(_NUMBERS, file=path, key=query_id)
        for document_id, number in documents.items():
            if not document_id or not _is_number(number):
                raise DataError(_NUMBERS, file=path, key=f"{query_id}.{document_id}")
        yield query_id, list(documents.items())


def _read_parquet(path: Path, id_columns: Sequence[str]) -> RunFile:
    rows: dict[str, list[RunRow]] = {}
    ranks: dict[str, dict[int, int]] = {}
    query_column = id_column = ""
    for place, row in ParquetFile(path).rows():
        if not id_column:
            query_column, id_column = _run_columns(row, id_columns, place)
        query_id, unit_id = (identifier(row, name, place) for name in (query_column, id_column))
        own_ranks, number = ranks.setdefault(query_id, {}), place.line or 0
        score = row.get(SCORE_COLUMN)
        if RANK_COLUMN in row:
            rank = row[RANK_COLUMN]
            if not isinstance(rank, int) or rank < 1:
                raise place.error("must be an integer from 1", RANK_COLUMN)
            if rank in own_ranks:
                problem = f"rank {rank} of query '{query_id}' is already in row {own_ranks[rank]}"
                raise place.error(problem, RANK_COLUMN)
            own_ranks[rank] = number
            score = 1 / rank if SCORE_COLUMN not in row else score
        if not _is_number(score):
            raise place.error("must be a finite number", SCORE_COLUMN)
        rows.setdefault(query_id, []).append(RunRow(number, unit_id, float(score)))
    listed = any(ranks.values())
    if listed:
        for query_id, own in ranks.items():
            by_line = {row.line: row for row in rows[query_id]}
            rows[query_id] = [by_line[own[rank]] for rank in sorted(own)]
    return RunFile(path, id_column, listed=listed, rows=rows, failures={})


def _run_columns(row: Row, id_columns: Sequence[str], place: Place) -> tuple[str, str]:
    """Return the columns of queries and of ids."""
    query = next((name for name in QUERY_COLUMNS if name in row), None)
    unit = next((name for name in id_columns if name in row), None)
    if query is None or unit is None or not {RANK_COLUMN, SCORE_COLUMN} & row.keys():
        needed = f"`{'` or `'.join(QUERY_COLUMNS)}`, one of {', '.join(ID_COLUMNS)}"
        needed += f", and `{RANK_COLUMN}` or `{SCORE_COLUMN}`"
        problem = f"has the columns {', '.join(row) or 'none'}; needs {needed}"
        raise Place(place.file).error(problem)
    return query, unit


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
    for query_id, rows in groupby(run.to_pylist(), key=lambda row: row["query_id"]):
        hits = [(row["unit_id"], row["score"]) for row in rows]
        ids, scores = [item for item, _ in hits], [score for _, score in hits]
        line: dict[str, Any] = {"query_id": query_id, IDS_KEY: ids, "scores": scores}
        yield json.dumps(line, ensure_ascii=False)
    for query_id, reason in sorted(failures.items()):
        yield json.dumps({"query_id": query_id, ERROR_KEY: reason}, ensure_ascii=False)
