"""Reads run files and qrels files of TREC, and the qrels of BEIR."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.schemas import RELEVANT_UNITS
from rag_assets.trec_lines import BEIR_COLUMNS, TREC_COLUMNS, read_fields, read_qrel_lines

_FIELDS = 6
_RANKED = 3
_RUN_LINES = "a run line is 'query Q0 document rank score tag', of MS MARCO 'query document rank'"


class RunLine(NamedTuple):
    """One line of a run: its number from 1, and what of it has a meaning."""

    line: int
    query_id: str
    document_id: str
    score: float


def read_run_lines(path: Path) -> Iterator[RunLine]:
    """Yield the lines of a TREC run as they stand, repeated documents too.

    Fields after the tag are ignored, as in trec_eval 10. A file whose first line has three fields
    is of MS MARCO, ``query document rank``; the score of rank i is then 1 / i.

    Raises:
        DataError: a line has another number of fields, a score is not a finite number, or a rank
            of MS MARCO is not an integer from 1 or stands twice for a query.
    """
    is_ranked: bool | None = None
    taken: set[tuple[str, int]] = set()
    for number, fields in read_fields(path):
        if is_ranked is None:
            is_ranked = len(fields) == _RANKED
        if is_ranked:
            yield _ranked_line(fields, taken, path, number)
            continue
        if len(fields) < _FIELDS or (len(fields) > _FIELDS and _is_shifted(fields)):
            raise DataError(_run_problem(fields), file=path, line=number)
        query_id, _, document_id, _, score = fields[:5]
        yield RunLine(number, query_id, document_id, _score(score, path, number))


def _ranked_line(
    fields: list[str], taken: set[tuple[str, int]], path: Path, number: int
) -> RunLine:
    if len(fields) != _RANKED:
        problem = f"has {len(fields)} fields; the lines above are 'query document rank'"
        raise DataError(problem, file=path, line=number)
    query_id, document_id, text = fields
    rank = int(text) if text.isdecimal() and len(text) < 10 else 0
    if rank < 1:
        problem = f"rank '{text}' is not an integer from 1; {_RUN_LINES}"
        raise DataError(problem, file=path, line=number)
    if (query_id, rank) in taken:
        problem = f"rank {rank} stands twice for query '{query_id}'"
        raise DataError(problem, file=path, line=number)
    taken.add((query_id, rank))
    return RunLine(number, query_id, document_id, 1 / rank)


def _is_shifted(fields: list[str]) -> bool:
    """Return whether a blank in an id, and not a further field, makes a line longer."""
    return not fields[3].lstrip("-").isdecimal() or _number(fields[5]) is not None


def _run_problem(fields: list[str]) -> str:
    hint = ""
    if len(fields) > _FIELDS:
        hint = "; fields after the tag may follow, but here an id seems to hold a blank"
    return f"has {len(fields)} fields; {_RUN_LINES}{hint}"


def _score(text: str, path: Path, number: int) -> float:
    score = _number(text)
    if score is None or not math.isfinite(score):
        problem = f"score '{text}' is not a finite number"
        raise DataError(problem, file=path, line=number)
    return score


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def read_qrels(path: Path) -> pa.Table:
    """Read judgments from a TREC qrels file or a BEIR table.

    TREC is ``query_id iteration document_id grade`` a line; BEIR is ``query-id corpus-id score``,
    with that header or without.

    Returns:
        Table of :data:`rag_assets.schemas.RELEVANT_UNITS`: every document is an evidence.

    Raises:
        DataError: a line has another number of fields, a grade is not an integer of 32 bits, or a
            pair stands twice; names the file and the line.
    """
    seen: dict[tuple[str, str], int] = {}
    grades: list[int] = []
    for line, query_id, document_id, grade in read_qrel_lines(path, (BEIR_COLUMNS, TREC_COLUMNS)):
        pair = (query_id, document_id)
        if pair in seen:
            what = f"query '{query_id}' and document '{document_id}'"
            problem = f"{what} stand already on line {seen[pair]}"
            if document_id == "0" == str(grade):
                problem += (
                    "; the columns are query, iteration, document, grade: where they are query, "
                    "document, 0, 0, write `1 0 28 1` for `1 28 0 0`"
                )
            raise DataError(problem, file=path, line=line)
        seen[pair] = line
        grades.append(grade)
    if not seen:
        raise DataError("holds no judgments", file=path)
    queries, documents = [pair[0] for pair in seen], [pair[1] for pair in seen]
    columns = [queries, documents, documents, grades]
    return RELEVANT_UNITS.check(pa.table(columns, schema=RELEVANT_UNITS.arrow()))
