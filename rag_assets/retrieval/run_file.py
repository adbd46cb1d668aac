"""``type: run_file``: a ranking that stands in a file.

An id is looked up among the chunks, then among their parents and, where documents are judged,
among the documents. Several ids of a unit collapse to it: its best one counts. Where scores decide
a query's order it is the one of :mod:`rag_assets.ordering`, by the ids of the file.

With ``chunking: own`` the file is JSON lines with texts and spans, one query a line:
``{"query_id": "q1", "hits": [{"text": "...", "source": "a.md"}, ["b.md", 0, 310], "c.md"]}``: a
hit is a text, a span or an id, as a function returns it. ``retrieved_contexts`` (Ragas) and
``retrieved_contents`` (AutoRAG) are lists of texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa

from rag_assets.called.hits import Hit, Rejected, hits_of
from rag_assets.errors import DataError
from rag_assets.evaluation.run_files import (
    ERROR_KEY,
    HITS_KEY,
    JSON_LINES,
    failure_reason,
    layout_of,
    query_objects,
    read_run_rows,
)
from rag_assets.retrieval.base import UNCHUNKED
from rag_assets.retrieval.external.base import ImportedRetriever, QueryResult
from rag_assets.sources.fields import Place, Row

TEXTS_KEYS = ("retrieved_contexts", "retrieved_contents")
MAX_HITS = 1_000_000
"""Of one query: all."""


def read_ids(path: Path, query_ids: Collection[str]) -> dict[str, QueryResult]:
    """Read the ids that were returned for some queries, with an error where a line tells of one."""
    run, wanted = read_run_rows(path), set(query_ids)
    _check_some(wanted, [*run.rows, *run.failures], path)
    results = {q: QueryResult(error=why) for q, why in run.failures.items() if q in wanted}
    for query_id in run.rows.keys() & wanted:
        rows = run.rows[query_id]
        if not run.listed:
            rows = sorted(rows, key=lambda row: (row.score, row.unit_id), reverse=True)
        hits = [Hit(id=row.unit_id, score=row.score) for row in rows]
        results[query_id] = QueryResult(hits)
    return results


def read_hit_lines(path: Path, query_ids: Collection[str]) -> dict[str, QueryResult]:
    """Read the texts and spans that were returned for some queries, likewise."""
    if layout_of(path) != JSON_LINES:
        raise DataError("`chunking: own` reads texts and spans from a .jsonl file", file=path)
    lines = {query_id: (row, place) for place, query_id, row in query_objects(path)}
    wanted = set(query_ids)
    _check_some(wanted, list(lines), path)
    return {query_id: _result(*line) for query_id, line in lines.items() if query_id in wanted}


def _check_some(wanted: set[str], in_file: Sequence[str], path: Path) -> None:
    if wanted and wanted.isdisjoint(in_file):
        problem = f"has none of the experiment's {len(wanted)} queries; its first is"
        raise DataError(f"{problem} '{next(iter(in_file), None)}'", file=path)


def _result(row: Row, place: Place) -> QueryResult:
    if row.get(ERROR_KEY) is not None:
        return QueryResult(error=failure_reason(row, place))
    key = next((key for key in (HITS_KEY, *TEXTS_KEYS) if key in row), None)
    if key is None:
        names = ", ".join(list(row)[:10])
        allowed = ", ".join((HITS_KEY, *TEXTS_KEYS))
        raise place.error(f"has none of {allowed}; found keys: {names}")
    try:
        hits = hits_of(row[key], MAX_HITS, as_texts=key != HITS_KEY)
    except Rejected as error:
        raise place.error(str(error), key) from error
    return QueryResult(hits)


class RunFileRetriever(ImportedRetriever):
    """A ranking from elsewhere, read from ``path`` (relative to the YAML file).

    A file is TREC, or by its name JSON lines (``.jsonl``) or Parquet (``.parquet``). Its ids are
    those of chunks of ``chunking``, of their parents or, where documents are judged, of documents.
    With ``chunking: own`` it is JSON lines with ``hits``: texts and spans, which are located in the
    documents.
    """

    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["run_file"]
    path: Path

    def read(self, queries: pa.Table) -> Mapping[str, QueryResult]:
        query_ids = queries.column("query_id").to_pylist()
        read = read_hit_lines if self.chunking == UNCHUNKED else read_ids
        return read(self.path, query_ids)
