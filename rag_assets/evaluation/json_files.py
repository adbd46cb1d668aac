"""Reads runs as JSON lines, and runs and qrels as one JSON object.

JSON lines have one query a line, with the list of what was retrieved for it, as AutoRAG names them:
``{"qid": "q1", "retrieved_ids": ["d3", "d1"], "retrieve_scores": [2.5, 1.0]}``. ``query_id`` and
``scores`` are taken too, and scores may be left out. Other keys are ignored.

One object is what ranx and pytrec_eval have: ``{"q1": {"d12": 0.9, "d25": 0.8}, "q2": {}}``, query
to document to score, or to grade.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.schemas import RUNS
from rag_assets.text_files import opened, read_bytes, suffix

QUERY_KEYS = ("qid", "query_id")
IDS_KEY = "retrieved_ids"
SCORES_KEYS = ("retrieve_scores", "scores")
ERROR_KEY = "error"
HITS_KEY = "hits"
"""Texts and spans; see :mod:`rag_assets.retrieval.imported.hit_lines`."""
Numbers = Mapping[str, float]
_FORM = 'must be {"query": {"document": number}}'


class ListedQuery(NamedTuple):
    """The list of one query: its line, and (id, score) best first, repetitions kept."""

    line: int
    query_id: str
    hits: tuple[tuple[str, float], ...]


def is_json_lines(path: Path) -> bool:
    """Return whether a file's name says that it holds JSON lines, compressed or not."""
    return suffix(path) == ".jsonl"


def read_lists(path: Path) -> list[ListedQuery]:
    """Read the lists as they stand. Without scores, that of rank i is 1 / i.

    Raises:
        DataError: the file cannot be read, a line is not one such object, or a query stands twice;
            names the file, the line and the key.
    """
    lists = [
        ListedQuery(number, query_id, _hits(row, path, number))
        for number, query_id, row in query_objects(path)
    ]
    if not lists:
        raise DataError("holds no queries", file=path)
    return lists


def read_lists_and_failures(path: Path) -> tuple[list[ListedQuery], dict[str, str]]:
    """Read the lists as :func:`read_lists`, and query id -> error of the lines that tell of one.

    Raises:
        DataError: as :func:`read_lists`, or an error is not a text.
    """
    lists, failures = [], {}
    for number, query_id, row in query_objects(path):
        if row.get(ERROR_KEY) is None:
            lists.append(ListedQuery(number, query_id, _hits(row, path, number)))
        else:
            failures[query_id] = reason_of(row, path, number)
    if not lists and not failures:
        raise DataError("holds no queries", file=path)
    return lists, failures


def query_objects(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the line from 1, the query id and the object of each line.

    Raises:
        DataError: the file cannot be read, a line is no such object, or a query stands twice.
    """
    lines: dict[str, int] = {}
    for number, row in read_objects(path):
        key, query_id = _first(row, QUERY_KEYS, path, number)
        if not isinstance(query_id, str) or not query_id:
            raise DataError("must be a text that is not empty", file=path, line=number, key=key)
        if query_id in lines:
            problem = f"query '{query_id}' stands already on line {lines[query_id]}"
            raise DataError(problem, file=path, line=number, key=key)
        lines[query_id] = number
        yield number, query_id, row


def reason_of(row: dict[str, Any], path: Path, number: int) -> str:
    """Return why a query failed, as its line says.

    Raises:
        DataError: it is no text, or the line has a list too.
    """
    reason = row[ERROR_KEY]
    if not isinstance(reason, str) or not reason.strip():
        problem = "must be a text that is not empty"
        raise DataError(problem, file=path, line=number, key=ERROR_KEY)
    if row.get(IDS_KEY):
        problem = f"stands beside `{IDS_KEY}`; a query failed or has a list"
        raise DataError(problem, file=path, line=number, key=ERROR_KEY)
    return " ".join(reason.split())


def run_of_lists(path: Path) -> pa.Table:
    """Read the lists as a table of :data:`rag_assets.schemas.RUNS`; their order is the ranking.

    Raises:
        DataError: as :func:`read_lists`; or a document stands more than once for a query.
    """
    lists = read_lists(path)
    repeated = [(query, counts) for query in lists if (counts := _repeated(query))]
    if repeated:
        query, counts = repeated[0]
        item, count = next(iter(counts.items()))
        also = f", and {len(repeated) - 1} more queries repeat documents" if repeated[1:] else ""
        problem = (
            f"document '{item}' stands {count} times for query '{query.query_id}'{also}; "
            "a unit is retrieved once (--dialect autorag takes repetitions as AutoRAG does)"
        )
        raise DataError(problem, file=path, line=query.line, key=IDS_KEY)
    return listed_run({query.query_id: query.hits for query in lists})


def listed_run(queries: Mapping[str, Sequence[tuple[str, float]]]) -> pa.Table:
    """Return lists of (id, score) as a table of runs; their order is the ranking."""
    rows: list[dict[str, object]] = [
        {
            "query_id": query_id,
            "rank": rank,
            "score": score,
            "unit_id": item,
            "chunk_id": item,
            "document_id": item,
        }
        for query_id, hits in queries.items()
        for rank, (item, score) in enumerate(hits, 1)
    ]
    return RUNS.from_rows(rows)


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of every line that is not blank.

    Raises:
        DataError: the file cannot be read, or a line is not one JSON object in UTF-8.
    """
    with opened(path) as stream:
        for number, raw in enumerate(stream, 1):
            if raw.strip():
                yield number, _object(raw, path, number)


def _object(raw: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        problem = f"is not JSON ({str(error) or 'nested too deep'})"
        raise DataError(problem, file=path, line=number) from error
    if not isinstance(value, dict):
        raise DataError("must be one JSON object", file=path, line=number)
    return value


def _first(
    row: dict[str, Any], keys: tuple[str, ...], path: Path, number: int
) -> tuple[str, object]:
    for key in keys:
        if key in row:
            return key, row[key]
    names = ", ".join(list(row)[:10]) or "none"
    raise DataError(f"is missing; found keys: {names}", file=path, line=number, key=keys[0])


def _hits(row: dict[str, Any], path: Path, number: int) -> tuple[tuple[str, float], ...]:
    if HITS_KEY in row and IDS_KEY not in row:
        problem = "are texts or spans, which a retriever reads with `chunking: own`"
        raise DataError(problem, file=path, line=number, key=HITS_KEY)
    _, ids = _first(row, (IDS_KEY,), path, number)
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise DataError("must be a list of texts", file=path, line=number, key=IDS_KEY)
    key = next((key for key in SCORES_KEYS if row.get(key) is not None), None)
    if key is None:
        return tuple((item, 1 / rank) for rank, item in enumerate(ids, 1))
    scores = row[key]
    if not isinstance(scores, list) or not all(map(_is_score, scores)):
        raise DataError("must be a list of finite numbers", file=path, line=number, key=key)
    if len(scores) != len(ids):
        problem = f"has {len(scores)} scores for {len(ids)} ids"
        raise DataError(problem, file=path, line=number, key=key)
    return tuple((item, float(score)) for item, score in zip(ids, scores, strict=True))


def _is_score(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _repeated(query: ListedQuery) -> dict[str, int]:
    counts = Counter(item for item, _ in query.hits)
    return {item: count for item, count in counts.items() if count > 1}


def is_json(path: Path) -> bool:
    """Return whether a file's name says that it holds one JSON value, compressed or not."""
    return suffix(path) == ".json"


def read_scores(path: Path) -> dict[str, Numbers]:
    """Read a run: query id -> document id -> score; a query may have no document.

    Raises:
        DataError: the file cannot be read, is not of this form, a score is not a finite number, or
            a query or a document of it stands twice; names the file and the key.
    """
    scores = {query: _numbers(value, query, path) for query, value in _content(path).items()}
    if not scores:
        raise DataError("holds no queries", file=path)
    return scores


def read_grades(path: Path) -> dict[str, dict[str, int]]:
    """Read qrels: query id -> document id -> grade; ``1.0`` is taken as 1.

    Raises:
        DataError: as :func:`read_scores`, or a grade is not an integer of 32 bits.
    """
    return {
        query: {
            name: grade(value, path, key=f"{query}.{name}") for name, value in documents.items()
        }
        for query, documents in read_scores(path).items()
    }


def grade(value: object, path: Path, *, line: int | None = None, key: str) -> int:
    """Return a number as a grade.

    Raises:
        DataError: it is not an integer of 32 bits; ``1.0`` is one.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
        raise DataError("must be an integer", file=path, line=line, key=key)
    return value


def _content(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(
            read_bytes(path).decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_once,
        )
    except json.JSONDecodeError as error:
        raise DataError(f"is not JSON ({error.msg})", file=path, line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        problem = f"is not JSON ({str(error) or 'nested too deep'})"
        raise DataError(problem, file=path) from error
    if not isinstance(value, dict):
        raise DataError(_FORM, file=path)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} appears twice in an object")
    return fields


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def _numbers(value: object, query: str, path: Path) -> Numbers:
    if not query or not isinstance(value, dict):
        raise DataError(_FORM, file=path, key=query)
    for name, number in value.items():
        if not name or isinstance(number, bool) or not isinstance(number, int | float):
            raise DataError(_FORM, file=path, key=f"{query}.{name}")
        if not _is_finite(number):
            raise DataError("must be a finite number", file=path, key=f"{query}.{name}")
    return value


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
