"""Reads a run and labels as a tool is given them, repetitions and all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from rag_assets.evaluation.dialects.tool_input import Hit, ToolInput, ToolQuery
from rag_assets.evaluation.label_files import Labels
from rag_assets.evaluation.list_files import is_json_lines, listed_run, read_lists, run_of_lists
from rag_assets.evaluation.nested_files import is_json
from rag_assets.evaluation.parquet_runs import is_parquet
from rag_assets.evaluation.run_files import RunRow, read_run_rows
from rag_assets.evaluation.trec_files import ranked, read_run, read_run_lines

UNIT_COLUMNS = ("item_id", "document_id", "doc_id", "chunk_id")
"""Where Parquet has what is judged; files that `export-run` writes have it in the first."""


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


def read_hits(path: Path) -> tuple[dict[str, tuple[Hit, ...]], bool]:
    """Read what was retrieved for each query, and whether its order is the ranking.

    Raises:
        DataError: the file cannot be read, or breaks its format.
    """
    if is_json_lines(path):
        return {query.query_id: query.hits for query in read_lists(path)}, True
    if is_parquet(path) or is_json(path):
        run = read_run_rows(path, UNIT_COLUMNS)
        return {query: _hits(rows) for query, rows in run.rows.items()}, run.listed
    found: dict[str, list[Hit]] = {}
    for line in read_run_lines(path):
        found.setdefault(line.query_id, []).append((line.document_id, line.score))
    return {query: tuple(hits) for query, hits in found.items()}, False


def _hits(rows: Iterable[RunRow]) -> tuple[Hit, ...]:
    return tuple((row.item_id, row.score) for row in rows)


def tool_input(hits: Mapping[str, tuple[Hit, ...]], listed: bool, labels: Labels) -> ToolInput:
    """Put together what a tool is given.

    Args:
        hits: query -> what was retrieved for it.
        listed: the order of the hits is the ranking; otherwise their scores decide.
        labels: the labels of all queries to score.
    """
    grades = _grades(labels.judgments)
    anywhere = frozenset(item for judged in grades.values() for item in judged)
    judged = tuple(
        ToolQuery(
            query_id=query_id,
            hits=hits.get(query_id, ()),
            listed=listed,
            in_run=query_id in hits,
            groups=groups,
            grades=grades.get(query_id, {}),
            judged_anywhere=anywhere,
        )
        for query_id, groups in labels.groups.items()
    )
    strangers = tuple(
        ToolQuery(query_id, found, listed, judged_anywhere=anywhere)
        for query_id, found in hits.items()
        if query_id not in labels.groups
    )
    return ToolInput(judged, strangers)


def repetitions(data: ToolInput) -> Iterable[tuple[str, str, int]]:
    """Yield (query, document, how often) for each document that stands more than once."""
    for query in (*data.judged, *data.strangers):
        for item, count in query.repeated.items():
            yield query.query_id, item, count


def _grades(judgments: pa.Table) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in judgments.to_pylist():
        grades = found.setdefault(row["query_id"], {})
        if (item := row["item_id"]) is not None:
            grades[item] = max(row["grade"], grades.get(item, row["grade"]))
    return found
