"""Texts and spans that a search returned, as JSON lines: one query a line.

``{"query_id": "q1", "hits": [{"text": "...", "source": "a.md"}, ["b.md", 0, 310], "c.md"]}``: a
hit is a text, a span or an id, as a function returns it. ``retrieved_contexts`` (Ragas) and
``retrieved_contents`` (AutoRAG) are lists of texts.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rag_assets.errors import DataError
from rag_assets.evaluation.run_files import (
    ERROR_KEY,
    HITS_KEY,
    failure_reason,
    is_json_lines,
    query_objects,
)
from rag_assets.retrieval.external.base import QueryResult
from rag_assets.retrieval.external.returned import Unusable, hits_of
from rag_assets.sources.fields import Place, Row

TEXTS_KEYS = ("retrieved_contexts", "retrieved_contents")
MOST_HITS = 1_000_000
"""Of one query: all."""


def read_hit_lines(path: Path, query_ids: Collection[str]) -> dict[str, QueryResult]:
    """Read what was returned for some queries, with an error where a line tells of one.

    Raises:
        DataError: the file is no JSON lines, a line breaks the form, or none is of these queries;
            names the file, the line and the key.
    """
    if not is_json_lines(path):
        raise DataError("`chunking: own` reads texts and spans from a .jsonl file", file=path)
    wanted, found = set(query_ids), {}
    first = None
    for place, query_id, row in query_objects(path):
        first = first or query_id
        if query_id in wanted:
            found[query_id] = _result(row, place)
    if wanted and not found:
        problem = f"has none of the experiment's {len(wanted)} queries; its first is '{first}'"
        raise DataError(problem, file=path)
    return found


def _result(row: Row, place: Place) -> QueryResult:
    if row.get(ERROR_KEY) is not None:
        return QueryResult(error=failure_reason(row, place))
    key = next((key for key in (HITS_KEY, *TEXTS_KEYS) if key in row), None)
    if key is None:
        names = ", ".join(list(row)[:10])
        allowed = ", ".join((HITS_KEY, *TEXTS_KEYS))
        raise place.error(f"has none of {allowed}; found keys: {names}")
    try:
        hits = hits_of(row[key], MOST_HITS, as_texts=key != HITS_KEY)
    except Unusable as error:
        raise place.error(str(error), key) from error
    return QueryResult(hits)
