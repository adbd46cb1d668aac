"""``type: run_file``: a ranking that stands in a file.

An id is looked up among the chunks, then among their parents and, where documents are judged,
among the documents. Several ids of a unit collapse to it: its best one counts. Where scores decide
a query's order it is the one of :mod:`rag_assets.ordering`, by the ids of the units.

With ``chunking: own`` the file is JSON lines with texts and spans, one query a line:
``{"query_id": "q1", "hits": [{"text": "...", "source": "a.md"}, ["b.md", 0, 310], "c.md"]}``: a
hit is a text, a span or an id, as a function returns it. ``retrieved_contexts`` (Ragas) and
``retrieved_contents`` (AutoRAG) are lists of texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.evaluation.run_files import (
    ERROR_KEY,
    HITS_KEY,
    JSON_LINES,
    RunFile,
    RunRow,
    failure_reason,
    layout_of,
    query_objects,
    read_run_rows,
)
from rag_assets.evaluation.units import PARENT_ID, unit_ids
from rag_assets.retrieval.base import Imported, ImportedRetriever
from rag_assets.retrieval.external.hits import QueryResult, Rejected, hits_of
from rag_assets.schemas import RUNS
from rag_assets.sources.fields import Place, Row

TEXTS_KEYS = ("retrieved_contexts", "retrieved_contents")
MAX_HITS = 1_000_000
"""Of one query: all."""


def read_hit_lines(path: Path, query_ids: Collection[str]) -> dict[str, QueryResult]:
    """Read what was returned for some queries, with an error where a line tells of one."""
    if layout_of(path) != JSON_LINES:
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

    def read(self, queries: pa.Table, chunks: pa.Table, *, judge: str) -> Imported:
        run = read_run_rows(self.path)
        return unit_run(run, queries.column("query_id").to_pylist(), chunks, judge)

    def read_hits(self, queries: pa.Table) -> Mapping[str, QueryResult]:
        return read_hit_lines(self.path, queries.column("query_id").to_pylist())


class _Unit(NamedTuple):
    """What an id of a file means: the judged unit, a chunk of it, and its document."""

    unit_id: str
    chunk_id: str
    document_id: str
    is_named_by_document: bool


def unit_run(run: RunFile, query_ids: Collection[str], chunks: pa.Table, judge: str) -> Imported:
    """Return the ranking of the experiment's queries.

    Returns:
        Among the facts are ``n_other_queries`` in the file, ``n_queries_without_rows`` in the
        experiment, ``n_collapsed`` rows whose unit stands above them, and ``n_documents`` rows that
        name a document that was cut, of which the first chunk stands in the run.
    """
    experiment_ids, in_file = set(query_ids), {*run.rows, *run.failures}
    if experiment_ids and not in_file & experiment_ids:
        problem = f"has none of the experiment's {len(experiment_ids)} queries; its first is"
        raise DataError(f"{problem} '{next(iter(in_file))}'", file=run.path)
    units = _units_by_id(chunks, judge)
    columns: dict[str, list[object]] = {name: [] for name in RUNS.arrow().names}
    collapsed = n_documents = 0
    for query in sorted(experiment_ids & run.rows.keys()):
        named = [(row, _unit(row, units, run, judge)) for row in run.rows[query]]
        best = _best_of_each(named, listed=run.listed)
        collapsed += len(named) - len(best)
        n_documents += sum(unit.is_named_by_document for _, unit in best)
        for rank, (row, unit) in enumerate(best, 1):
            values = (query, rank, row.score, unit.unit_id, unit.chunk_id, unit.document_id)
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    counts = {
        "n_other_queries": len(in_file - experiment_ids),
        "n_queries_without_rows": len(experiment_ids - in_file)
        + sum(not run.rows[query] for query in experiment_ids & run.rows.keys()),
        "n_collapsed": collapsed,
        "n_documents": n_documents,
    }
    failures = {query: why for query, why in run.failures.items() if query in experiment_ids}
    notes = [f"{n} {_NOTES[name]}" for name, n in counts.items() if n]
    return Imported(
        RUNS.check(pa.table(columns, schema=RUNS.arrow())), {**counts, "notes": notes}, failures
    )


_NOTES = {
    "n_other_queries": "queries of the file are not in the experiment and are left out",
    "n_queries_without_rows": "queries of the experiment have no rows in the file",
    "n_collapsed": "rows name a unit that stands above them and are left out",
    "n_documents": "rows name a document that is cut; what is measured of their text is its "
    "first chunk",
}


def _units_by_id(chunks: pa.Table, judge: str) -> dict[str, _Unit]:
    """Return id -> unit; an id of a chunk goes before that of a parent, and that of a document."""
    ordered = chunks.sort_by([("document_id", "ascending"), ("start", "ascending")])
    items = unit_ids(ordered, judge).to_pylist()
    chunk_ids, documents = (ordered.column(n).to_pylist() for n in ("chunk_id", "document_id"))
    parents = ordered.column(PARENT_ID).to_pylist()
    rows = list(zip(items, chunk_ids, documents, strict=True))
    units = {chunk: _Unit(item, chunk, document, False) for item, chunk, document in rows}
    for parent, row in zip(parents, rows, strict=True):
        if parent is not None:
            units.setdefault(parent, _Unit(*row, False))
    if judge == "document":
        for row in rows:
            units.setdefault(row[2], _Unit(*row, True))
    return units


def _unit(row: RunRow, units: dict[str, _Unit], run: RunFile, judge: str) -> _Unit:
    unit = units.get(row.unit_id)
    if unit is None:
        allowed = "chunk, parent or document" if judge == "document" else "chunk or parent"
        problem = f"'{row.unit_id}' is no {allowed} of the retriever's chunking"
        raise DataError(problem, file=run.path, line=row.line, key=run.key)
    return unit


def _best_of_each(named: list[tuple[RunRow, _Unit]], *, listed: bool) -> list[tuple[RunRow, _Unit]]:
    """Keep the best row of each unit, best first."""
    if not listed:
        named = sorted(named, key=lambda pair: (pair[0].score, pair[1].chunk_id), reverse=True)
    first_of_unit: dict[str, tuple[RunRow, _Unit]] = {}
    for row, unit in named:
        first_of_unit.setdefault(unit.unit_id, (row, unit))
    best = list(first_of_unit.values())
    if not listed:
        best.sort(key=lambda pair: (pair[0].score, pair[1].unit_id), reverse=True)
    return best
