"""Reads run files and qrels files of TREC, and the qrels of BEIR."""

from __future__ import annotations

import gzip
import math
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.ordering import byte_order_ranks
from rag_assets.schemas import JUDGMENTS, RUNS

_BEIR_HEADER = ["query-id", "corpus-id", "score"]
_LARGEST_GRADE = 2**31 - 1


def read_run(path: Path) -> pa.Table:
    """Read a TREC run: ``query_id Q0 document_id rank score tag`` a line.

    The rank column is ignored, as trec_eval does: a query's documents are ranked by score
    descending, then by id descending in bytes.

    Raises:
        DataError: a line has another number of fields, a score is not a finite number, or a
            document stands twice for a query; names the file and the line.
    """
    queries: dict[str, dict[str, float]] = {}
    for number, fields in _lines(path):
        if len(fields) != 6:
            problem = f"has {len(fields)} fields; a run line is 'query Q0 document rank score tag'"
            raise DataError(problem, file=path, line=number)
        query_id, _, document_id, _, score, _ = fields
        scores = queries.setdefault(query_id, {})
        if document_id in scores:
            problem = f"document '{document_id}' stands twice for query '{query_id}'"
            raise DataError(problem, file=path, line=number)
        scores[document_id] = _score(score, path, number)
    if not queries:
        raise DataError("holds no run lines", file=path)
    return _ranked(queries)


def _score(text: str, path: Path, number: int) -> float:
    try:
        score = math.nan if "_" in text else float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        problem = f"score '{text}' is not a finite number"
        raise DataError(problem, file=path, line=number)
    return score


def _ranked(queries: dict[str, dict[str, float]]) -> pa.Table:
    columns: dict[str, list[object]] = {name: [] for name in RUNS.arrow().names}
    for query_id, scores in queries.items():
        ids = list(scores)
        order = byte_order_ranks(ids)
        best = sorted(range(len(ids)), key=lambda i: (-scores[ids[i]], -order[i]))
        for rank, i in enumerate(best, 1):
            row = (query_id, rank, scores[ids[i]], ids[i], ids[i], ids[i])
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    return RUNS.check(pa.table(columns, schema=RUNS.arrow()))


def read_qrels(path: Path) -> pa.Table:
    """Read judgments from a TREC qrels file or a BEIR table.

    TREC is ``query_id iteration document_id grade`` a line; BEIR is ``query-id corpus-id score``,
    with that header or without.

    Returns:
        Table of :data:`rag_assets.schemas.JUDGMENTS`: every document is an evidence of its own.

    Raises:
        DataError: a line has another number of fields, a grade is not an integer of 32 bits, or a
            pair stands twice; names the file and the line.
    """
    seen: dict[tuple[str, str], int] = {}
    grades: list[int] = []
    for number, fields in _lines(path):
        if fields == _BEIR_HEADER:
            continue
        if len(fields) not in {3, 4}:
            problem = f"has {len(fields)} fields; a qrels line is 'query iteration document grade'"
            raise DataError(problem, file=path, line=number)
        pair = (fields[0], fields[-2])
        if pair in seen:
            problem = f"query '{pair[0]}', document '{pair[1]}' stand already on line {seen[pair]}"
            raise DataError(problem, file=path, line=number)
        seen[pair] = number
        grades.append(_grade(fields[-1], path, number))
    if not seen:
        raise DataError("holds no judgments", file=path)
    queries, documents = [pair[0] for pair in seen], [pair[1] for pair in seen]
    columns = [queries, documents, documents, grades]
    return JUDGMENTS.check(pa.table(columns, schema=JUDGMENTS.arrow()))


def _grade(text: str, path: Path, number: int) -> int:
    try:
        grade = None if "_" in text else int(text)
    except ValueError:
        grade = None
    if grade is None or abs(grade) > _LARGEST_GRADE:
        problem = f"grade '{text}' is not an integer, or is beyond {_LARGEST_GRADE}"
        raise DataError(problem, file=path, line=number)
    return grade


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of every line that is not blank.

    Fields are cut at ASCII white space only, as trec_eval does: an id may hold other blanks.
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                content = line.removeprefix(BOM_UTF8) if number == 1 else line
                fields = [field.decode() for field in content.split()]
                if fields:
                    yield number, fields
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text ({error.reason})"
        raise DataError(problem, file=path, line=number) from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"is a damaged gzip file ({error})", file=path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
