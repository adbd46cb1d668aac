"""Reads labels to score against that say more than qrels: groups of alternatives.

- ``qa.parquet`` of AutoRAG: the columns ``qid`` and ``retrieval_gt``, a list of groups (AND) of
  ids (OR).
- ``.parquet`` with the columns of :data:`rag_assets.schemas.RELEVANT_UNITS`, as the pipeline writes
  it; with ``query-id``, ``corpus-id`` and ``score``, as MTEB, or with ``q_id``, ``doc_id`` and
  ``score``, as ranx.
- ``.jsonl`` with ``query_id``, ``doc_id``, and optionally ``evidence_id`` and ``relevance``: lines
  of a query with one ``evidence_id`` are alternatives; or with the keys of BEIR.
- ``.json`` of ranx: query to document to grade.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.evaluation.json_files import (
    grade,
    is_json,
    is_json_lines,
    read_grades,
    read_objects,
)
from rag_assets.evaluation.parquet_runs import is_parquet, read_table
from rag_assets.evaluation.trec_files import read_qrels
from rag_assets.schemas import RELEVANT_UNITS

QUERY, GROUND_TRUTH = "qid", "retrieval_gt"
QUOTE_KEYS = ("quote", "start")
PAIR_KEYS = (("query-id", "corpus-id", "score"), ("q_id", "doc_id", "score"))
"""Query, document and grade as BEIR and MTEB name them, and ranx."""

Groups = dict[str, tuple[tuple[str, ...], ...]]


class Labels(NamedTuple):
    """The judgments, and each query's groups of relevant ids as the file has them."""

    judgments: pa.Table
    groups: Groups


def read_labels(path: Path) -> Labels:
    """Read the labels of any of these formats, of a TREC qrels file or of a BEIR table.

    Raises:
        DataError: the file cannot be read, or breaks its format; names the file and the place.
    """
    if is_parquet(path):
        return _parquet_labels(path)
    if is_json_lines(path):
        judgments = _json_judgments(path)
    elif is_json(path):
        judgments = _nested_judgments(path)
    else:
        judgments = read_qrels(path)
    return Labels(judgments, _groups(judgments))


def _nested_judgments(path: Path) -> pa.Table:
    grades = read_grades(path)
    rows: list[dict[str, object]] = [
        {"query_id": query, "evidence_id": item, "unit_id": item, "grade": value}
        for query, documents in grades.items()
        for item, value in documents.items()
    ]
    if not rows:
        raise DataError("holds no judgments", file=path)
    return RELEVANT_UNITS.from_rows(rows)


def _parquet_labels(path: Path) -> Labels:
    table = read_table(path)
    if {QUERY, GROUND_TRUTH} <= set(table.column_names):
        return _ground_truth(table.select([QUERY, GROUND_TRUTH]).to_pylist(), path)
    names = RELEVANT_UNITS.arrow().names
    if set(names) <= set(table.column_names):
        judgments = RELEVANT_UNITS.check(table.select(names).cast(RELEVANT_UNITS.arrow()))
        return Labels(judgments, _groups(judgments))
    for keys in PAIR_KEYS:
        if set(keys) <= set(table.column_names):
            judgments = _judged_pairs(enumerate(table.select(keys).to_pylist(), 1), keys, path)
            return Labels(judgments, _groups(judgments))
    present = ", ".join(table.column_names)
    pairs = ", or ".join(", ".join(keys) for keys in PAIR_KEYS)
    allowed = f"{QUERY}, {GROUND_TRUTH} (AutoRAG), or {', '.join(names)}, or {pairs}"
    raise DataError(f"holds neither the columns {allowed}; found: {present}", file=path)


def _judged_pairs(
    rows: Iterable[tuple[int, Mapping[str, object]]], keys: tuple[str, str, str], path: Path
) -> pa.Table:
    """Return rows of query, document and grade as judgments, each an evidence of its own."""
    by_pair: dict[tuple[str, str], dict[str, object]] = {}
    for number, row in rows:
        query_id, document_id = (_id(row, key, path, number) for key in keys[:2])
        if (query_id, document_id) in by_pair:
            raise DataError("the same judgment is already above", file=path, line=number)
        by_pair[query_id, document_id] = {
            "query_id": query_id,
            "evidence_id": document_id,
            "unit_id": document_id,
            "grade": grade(row.get(keys[2]), path, line=number, key=keys[2]),
        }
    if not by_pair:
        raise DataError("holds no judgments", file=path)
    return RELEVANT_UNITS.from_rows(list(by_pair.values()))


def _id(row: Mapping[str, object], key: str, path: Path, number: int) -> str:
    """Return an id; an integer is taken as its decimal text, as in datasets of this kind."""
    value = row.get(key)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_integer else _text(row, key, path, number)


def _ground_truth(rows: list[dict[str, object]], path: Path) -> Labels:
    groups: Groups = {}
    labels: list[dict[str, object]] = []
    for number, row in enumerate(rows, 1):
        query_id = row[QUERY]
        if not isinstance(query_id, str) or not query_id:
            raise DataError("must be a text that is not empty", file=path, line=number, key=QUERY)
        if query_id in groups:
            raise DataError(f"query '{query_id}' stands twice", file=path, line=number, key=QUERY)
        groups[query_id] = _checked_groups(row[GROUND_TRUTH], path, number)
        labels += _labels(query_id, groups[query_id])
    if not groups:
        raise DataError("holds no queries", file=path)
    return Labels(RELEVANT_UNITS.from_rows(labels), groups)


def _checked_groups(value: object, path: Path, number: int) -> tuple[tuple[str, ...], ...]:
    """Null means the same as nothing at each level."""
    groups = []
    for group in _listed(value, path, number):
        items = _listed(group, path, number)
        if not all(item is None or isinstance(item, str) for item in items):
            problem = "must be a list of lists of ids"
            raise DataError(problem, file=path, line=number, key=GROUND_TRUTH)
        groups.append(tuple(str(item or "") for item in items))
    return tuple(groups)


def _listed(value: object, path: Path, number: int) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        problem = "must be a list of lists of ids"
        raise DataError(problem, file=path, line=number, key=GROUND_TRUTH)
    return value


def _labels(query_id: str, groups: Iterable[tuple[str, ...]]) -> list[dict[str, object]]:
    """Return the judgments of a query; one without a unit where it has no ground truth."""
    named = [list(dict.fromkeys(item for item in group if item.strip())) for group in groups]
    rows: list[dict[str, object]] = [
        {"query_id": query_id, "evidence_id": str(number), "unit_id": item, "grade": 1}
        for number, group in enumerate([group for group in named if group], 1)
        for item in group
    ]
    none: dict[str, object] = {
        "query_id": query_id,
        "evidence_id": "1",
        "unit_id": None,
        "grade": 0,
    }
    return rows or [none]


def _json_judgments(path: Path) -> pa.Table:
    rows: dict[tuple[str, str, str], dict[str, object]] = {}
    beir = PAIR_KEYS[0]
    for number, row in read_objects(path):
        if number == 1 and set(beir) <= row.keys():
            return _judged_pairs(read_objects(path), beir, path)
        query_id, document_id = (_text(row, key, path, number) for key in ("query_id", "doc_id"))
        if any(row.get(key) is not None for key in QUOTE_KEYS):
            problem = "a quote is found in documents, which are not read here; use `evaluate`"
            raise DataError(problem, file=path, line=number, key=QUOTE_KEYS[0])
        # A line without an evidence is one of its own; the blank keeps the two kinds apart.
        named = row.get("evidence_id") is not None
        evidence = _text(row, "evidence_id", path, number) if named else f"document {document_id}"
        relevance = grade(row.get("relevance", 1), path, line=number, key="relevance")
        if (query_id, evidence, document_id) in rows:
            raise DataError("the same judgment is already above", file=path, line=number)
        rows[query_id, evidence, document_id] = {
            "query_id": query_id,
            "evidence_id": evidence,
            "unit_id": document_id,
            "grade": relevance,
        }
    if not rows:
        raise DataError("holds no judgments", file=path)
    return RELEVANT_UNITS.from_rows(list(rows.values()))


def _text(row: Mapping[str, object], key: str, path: Path, number: int) -> str:
    value = row.get(key)
    if isinstance(value, str) and value:
        return value
    problem = "must be a text that is not empty" if key in row else "is missing"
    raise DataError(problem, file=path, line=number, key=key)


def _groups(judgments: pa.Table) -> Groups:
    """Return the relevant ids of each evidence, in the order of the table."""
    by_query: dict[str, dict[str, list[str]]] = {}
    for row in judgments.to_pylist():
        groups = by_query.setdefault(row["query_id"], {})
        if row["grade"] > 0:
            group = groups.setdefault(row["evidence_id"], [])
            group += [row["unit_id"]] if row["unit_id"] is not None else []
    return {query: tuple(map(tuple, groups.values())) for query, groups in by_query.items()}
