"""Reads and writes run files; a name says which of four layouts it is, ``.gz`` after it or not.

- TREC: ``query Q0 document rank score tag`` a line, whose rank is ignored, or MS MARCO's ``query
  document rank``; any name that is none of the others.
- ``.jsonl``: one query a line, with the list of what was retrieved for it, as AutoRAG names them:
  ``{"qid": "q1", "retrieved_ids": ["d3", "d1"], "retrieve_scores": [2.5, 1.0]}``. ``query_id`` and
  ``scores`` are taken too. A line with an ``error`` says why a query failed.
- ``.parquet``: one retrieved unit of one query a row, with ``query_id``, an id (``chunk_id``,
  ``unit_id`` or ``document_id``, the first that is there), and ``rank``, ``score`` or both; or the
  lists of AutoRAG's ``retrieve_node_line/retrieval/best_*.parquet``, and ``qid``, ``docno`` of
  PyTerrier.
- ``.json``: an object of query id to document id to score, as pytrec_eval takes it and mteb writes
  predictions.

A rank goes before a score; without scores, that of rank i is 1 / i.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.input_files import suffix
from rag_assets.ordering import byte_order_ranks
from rag_assets.schemas import RUNS
from rag_assets.sources.fields import Place, Row, identifier, present, shown
from rag_assets.sources.row_files import COMMENT, PARQUET, RowFile, read_fields, read_object

QUERY_KEYS = ("qid", "query_id")
IDS_KEY, ERROR_KEY = "retrieved_ids", "error"
SCORES_KEYS = ("retrieve_scores", "scores")
HITS_KEY = "hits"
"""Texts and spans; see :mod:`rag_assets.retrieval.run_file`."""

QUERY = "query_id"
ID_COLUMNS = ("chunk_id", "unit_id", "document_id", "docno")
UNIT_COLUMNS = ("unit_id", "document_id", "chunk_id", "docno")
"""Where Parquet has what is judged; files that `export-run` writes have it in the first."""

DOCUMENT, RANK, SCORE = "document", "rank", "score"
JSON_LINES, JSON = ".jsonl", ".json"

_TREC_FIELDS, _RANKED_FIELDS = 6, 3
_TREC_LINES = "a run line is 'query Q0 document rank score tag' (MS MARCO: 'query document rank')"


class RunRow(NamedTuple):
    """One retrieved unit of a query: its line (in JSON its number in the query), id and score."""

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


_Unit = tuple[int | None, str, object, object]
"""Line, id, score and rank of a unit; None: the layout has no such."""

_Units = Iterator[tuple[str, Iterable[_Unit]]]
"""Queries, each once or several times, with units of theirs."""


def layout_of(path: Path) -> str:
    """Return the layout that a file's name says; one of these constants, else lines of TREC."""
    return PARQUET if path.suffix.lower() in {PARQUET, ".pq"} else suffix(path)


def read_run_rows(
    path: Path, id_columns: Sequence[str] = ID_COLUMNS, *, repeats: bool = False
) -> RunFile:
    """Read a run file of any layout.

    Args:
        path: the file.
        id_columns: of Parquet, where ids are looked for, the first that is there.
        repeats: allow an id to stand twice for a query.

    Raises:
        DataError: the file cannot be read or breaks its format, or an id or a rank occurs twice
            for a query; names the file, the line or row, and the key.
    """
    key, failures = DOCUMENT, dict[str, str]()
    layout = layout_of(path)
    if layout == JSON_LINES:
        key, units = IDS_KEY, _list_units(path, failures)
    elif layout == JSON:
        units = _scores_units(path)
    elif layout == PARQUET:
        key, units = _parquet_units(path, id_columns, failures)
    else:
        units = _trec_units(path)
    rows, has_ranks = _gathered(path, key, units, repeats=repeats)
    if not rows and not failures:
        raise DataError("holds no queries", file=path)
    return RunFile(path, key, has_ranks or key == IDS_KEY, rows, failures)


def read_run_file(path: Path) -> pa.Table:
    """Read a run of any layout as a table of runs.

    Raises:
        DataError: as :func:`read_run_rows`; or the file tells of queries that failed, which cannot
            be scored.
    """
    run = read_run_rows(path, UNIT_COLUMNS)
    for query_id, reason in run.failures.items():
        problem = f"marks query {shown(query_id)} as failed ({reason}); to score the rest, remove"
        raise DataError(f"{problem} such lines: {len(run.failures)}", file=path, key=ERROR_KEY)
    if run.listed:
        return _table(run.hits)
    return ranked({query_id: dict(hits) for query_id, hits in run.hits.items()})


def ranked(queries: Mapping[str, Mapping[str, float]]) -> pa.Table:
    """Return scores (query id -> document id -> score) as a table of runs.

    As trec_eval does, a query's documents are ranked by score descending, then by the bytes of
    their ids descending.
    """
    rankings = {}
    for query_id, scores in queries.items():
        ids = list(scores)
        order = dict(zip(ids, byte_order_ranks(ids), strict=True))
        best = sorted(ids, key=lambda item: (-scores[item], -order[item]))
        rankings[query_id] = [(item, scores[item]) for item in best]
    return _table(rankings)


def _table(rankings: Mapping[str, Sequence[tuple[str, float]]]) -> pa.Table:
    """Return rankings, best first, as a table of runs in which each unit is a document."""
    rows = [
        {
            "query_id": query_id,
            "rank": rank,
            "score": score,
            **dict.fromkeys(("unit_id", "chunk_id", "document_id"), unit_id),
        }
        for query_id, hits in rankings.items()
        for rank, (unit_id, score) in enumerate(hits, 1)
    ]
    return RUNS.from_rows(rows)


def _gathered(
    path: Path, key: str, units: _Units, *, repeats: bool
) -> tuple[dict[str, list[RunRow]], bool]:
    """Return the rows of each query, by rank where the units have one; and whether they do."""
    rows: dict[str, list[RunRow]] = {}
    ranks: dict[str, dict[int, RunRow]] = {}
    firsts: dict[tuple[str, str], RunRow] = {}
    for query_id, of_query in units:
        query_rows = rows.setdefault(query_id, [])
        for line, unit_id, score, rank in of_query:
            place = Place(path, line)
            if rank is not None and (not isinstance(rank, int) or rank < 1):
                raise place.error("must be an integer from 1", RANK)
            value = 1 / rank if score is None and isinstance(rank, int) else score
            if not _is_number(value):
                raise place.error("must be a finite number", SCORE)
            row = RunRow(line or len(query_rows) + 1, unit_id, float(value))
            query_rows.append(row)
            first = firsts.setdefault((query_id, unit_id), row)
            if first is not row and not repeats:
                problem = f"'{unit_id}' occurs twice for query '{query_id}', first on line "
                problem += f"{first.line}; a unit can be retrieved only once"
                problem += " (`score --dialect autorag` allows repetitions)"
                raise DataError(problem, file=path, line=row.line, key=key)
            if isinstance(rank, int):
                above = ranks.setdefault(query_id, {}).setdefault(rank, row)
                if above is not row:
                    problem = f"rank {rank} of query '{query_id}' is already on line"
                    raise place.error(f"{problem} {above.line}", RANK)
    for query_id, by_rank in ranks.items():
        rows[query_id] = [by_rank[rank] for rank in sorted(by_rank)]
    return rows, bool(ranks)


def _is_number(value: object) -> TypeGuard[float]:
    is_other = isinstance(value, bool)
    return not is_other and isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _trec_units(path: Path) -> _Units:
    """Yield the lines of a TREC run, or of MS MARCO where the first line has three fields."""
    n_fields = 0
    for place, fields in read_fields(path):
        n_fields = n_fields or len(fields)
        if len(fields) != n_fields or n_fields not in (_TREC_FIELDS, _RANKED_FIELDS):
            raise place.error(f"has {len(fields)} fields; {_TREC_LINES}")
        if n_fields == _RANKED_FIELDS:
            rank = int(fields[2]) if fields[2].isdecimal() else 0
            yield fields[0], [(place.line, fields[1], None, rank)]
        else:
            yield fields[0], [(place.line, fields[2], _number(fields[4]), None)]


def _number(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def _parquet_units(
    path: Path, id_columns: Sequence[str], failures: dict[str, str]
) -> tuple[str, _Units]:
    """Return the column of the ids, and the rows."""
    rows = list(RowFile(path).rows())
    names = rows[0][1] if rows else {}
    if IDS_KEY in names:
        return IDS_KEY, _list_units(path, failures)
    unit = next((name for name in id_columns if name in names), "")
    query = next((name for name in QUERY_KEYS if name in names), "")
    if rows and not (query and unit and {RANK, SCORE} & names.keys()):
        needed = f"`{QUERY}`, one of {', '.join(ID_COLUMNS)}, and `{RANK}` or `{SCORE}`"
        problem = f"has the columns {', '.join(names) or 'none'}; needs {needed}"
        raise DataError(problem, file=path)

    def units() -> _Units:
        for place, row in rows:
            # A null is no number; where there is no such column, None.
            score, rank = (
                math.nan if row.get(name, 0) is None else row.get(name) for name in (SCORE, RANK)
            )
            unit_id = identifier(row, unit, place)
            rank = None if unit == "docno" and score is not None else rank  # PyTerrier's is from 0
            yield identifier(row, query, place), [(place.line, unit_id, score, rank)]

    return unit, units()


def _scores_units(path: Path) -> _Units:
    """Yield the scores of an object, query -> document -> score; mteb has subset and split above.

    Raises:
        DataError: it holds several subsets or splits, or something else than scores.
    """
    level: dict[str, Any] = read_object(path, "an object of query id to document id to score")
    level.pop("mteb_model_meta", None)
    while any(isinstance(of, dict) and _is_nested(of) for of in level.values()):
        if len(level) > 1:
            raise DataError(f"holds several parts: {', '.join(level)}; keep one", file=path)
        (level,) = level.values()
    for query_id, scores in level.items():
        if not isinstance(scores, dict):
            raise Place(path).wrong(scores, "an object of document id to score", query_id)
        yield query_id, [(None, item, score, None) for item, score in scores.items()]


def _is_nested(value: Mapping[str, Any]) -> bool:
    return any(isinstance(inner, dict) for inner in value.values())


def _list_units(path: Path, failures: dict[str, str]) -> _Units:
    """Yield the lists of JSON lines; put the queries that failed into ``failures``."""
    for place, query_id, row in query_objects(path):
        if row.get(ERROR_KEY) is not None:
            failures[query_id] = failure_reason(row, place)
            continue
        if HITS_KEY in row and IDS_KEY not in row:
            problem = "are texts or spans, which need a retriever with `chunking: own`"
            raise place.error(problem, HITS_KEY)
        ids = present(row, IDS_KEY, place)
        if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
            raise place.error("must be a list of texts", IDS_KEY)
        key = next((key for key in SCORES_KEYS if row.get(key) is not None), None)
        scores = [None] * len(ids) if key is None else row[key]
        if key and not (isinstance(scores, list) and all(map(_is_number, scores))):
            raise place.error("must be a list of finite numbers", key)
        if len(scores) != len(ids):
            raise place.error(f"has {len(scores)} scores for {len(ids)} ids", key)
        hits = enumerate(zip(ids, scores, strict=True), 1)
        yield query_id, [(place.line, item, score, rank) for rank, (item, score) in hits]


def query_objects(path: Path) -> Iterator[tuple[Place, str, Row]]:
    """Yield place, query id and object of each line or row; each query stands once."""
    lines: dict[str, int | None] = {}
    for place, row in RowFile(path).rows():
        key = next((key for key in QUERY_KEYS if key in row), QUERY_KEYS[0])
        query_id = identifier(row, key, place)
        if query_id in lines:
            raise place.error(f"query '{query_id}' is already on line {lines[query_id]}", key)
        lines[query_id] = place.line
        yield place, query_id, row


def failure_reason(row: Row, place: Place) -> str:
    """Return why a query failed, as its line says; such a line has no list."""
    reason = row[ERROR_KEY]
    if not isinstance(reason, str) or not reason.strip():
        raise place.error("must be a text that is not empty", ERROR_KEY)
    if row.get(IDS_KEY):
        raise place.error(f"cannot be given together with `{IDS_KEY}`", ERROR_KEY)
    return " ".join(reason.split())


def write_run(run: pa.Table, path: Path, *, tag: str, failures: Mapping[str, str]) -> list[str]:
    """Write a run; a ``.gz`` after the name compresses TREC and JSON lines.

    TREC and JSON lines hold the ids of the judged units, Parquet every column of the run.

    Args:
        run: table of runs, sorted by query id and rank.
        path: the file.
        tag: the last field of TREC lines.
        failures: query id -> why the retriever failed on it; JSON lines hold them.

    Returns:
        A line for each thing that the format cannot hold.

    Raises:
        DataError: an id holds white space and the format is TREC, or the file cannot be written.
    """
    is_lists = layout_of(path) == JSON_LINES
    try:
        if layout_of(path) == PARQUET:
            pq.write_table(run, path, compression="zstd")
        else:
            lines = _list_lines(run, failures) if is_lists else _trec_lines(run, tag)
            content = "".join(f"{line}\n" for line in lines).encode()
            # Without a time of its own in it, equal runs give equal bytes.
            is_zipped = path.suffix.lower() == ".gz"
            path.write_bytes(gzip.compress(content, mtime=0) if is_zipped else content)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", file=path) from error
    except ValueError as error:
        raise DataError(f"{error}; write .jsonl or .parquet", file=path) from error
    if failures and not is_lists:
        return [f"{len(failures)} failed queries are left out; .jsonl holds them"]
    return []


def _trec_lines(run: pa.Table, tag: str) -> Iterator[str]:
    for row in run.to_pylist():
        for name in ("query_id", "unit_id"):
            if row[name].split() != [row[name]] or row["query_id"].startswith(COMMENT):
                reason = "TREC separates fields by white space, and # starts a comment"
                raise ValueError(f"{name} {row[name]!r}: {reason}")
        yield f"{row['query_id']} Q0 {row['unit_id']} {row['rank']} {row['score']!r} {tag}"


def _list_lines(run: pa.Table, failures: Mapping[str, str]) -> Iterator[str]:
    for query_id, group in groupby(run.to_pylist(), key=lambda row: row["query_id"]):
        rows = list(group)
        ids, scores = ([row[name] for row in rows] for name in ("unit_id", "score"))
        line = {"query_id": query_id, IDS_KEY: ids, "scores": scores}
        yield json.dumps(line, ensure_ascii=False)
    for query_id, reason in sorted(failures.items()):
        yield json.dumps({"query_id": query_id, ERROR_KEY: reason}, ensure_ascii=False)
