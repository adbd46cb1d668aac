"""Reads labels to score against, of any layout; some say more than qrels: groups of alternatives.

- TREC qrels and the tables of BEIR (:mod:`rag_assets.evaluation.trec_files`).
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

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.evaluation.run_files import is_json, is_json_lines, is_parquet, nested_numbers
from rag_assets.evaluation.trec_files import read_qrels
from rag_assets.schemas import RELEVANT_UNITS
from rag_assets.sources.fields import Place, Row, checked_grade, identifier
from rag_assets.sources.row_files import JsonLinesFile, ParquetFile

QUERY, GROUND_TRUTH = "qid", "retrieval_gt"
QUOTE_KEYS = ("quote", "start")
PAIR_KEYS = (("query-id", "corpus-id", "score"), ("q_id", "doc_id", "score"))
"""Query, document and grade as BEIR and MTEB name them, and ranx."""

Groups = dict[str, tuple[tuple[str, ...], ...]]
LabelRow = dict[str, object]


class Labels(NamedTuple):
    """The judgments, and each query's groups of relevant ids as the file has them."""

    judgments: pa.Table
    groups: Groups


def read_labels(path: Path) -> Labels:
    """Read the labels of any of these layouts.

    Raises:
        DataError: the file cannot be read, or breaks its format; names the file and the place.
    """
    if is_parquet(path):
        return _row_labels(list(ParquetFile(path).rows()), path)
    if is_json_lines(path):
        return _row_labels(list(JsonLinesFile(path).rows()), path)
    if not is_json(path):
        return _labels(read_qrels(path))
    rows: list[LabelRow] = []
    for query_id, grades in nested_numbers(path):
        for item, value in grades:
            grade = checked_grade(value, Place(path), f"{query_id}.{item}")
            rows.append(_label(query_id, item, item, grade))
    return _made(rows, path)


def _row_labels(rows: Sequence[tuple[Place, Row]], path: Path) -> Labels:
    """Return the labels of a file of rows; the keys of the first row say which layout it is."""
    names = rows[0][1].keys() if rows else ()
    if {QUERY, GROUND_TRUTH} <= {*names}:
        return _ground_truth(rows)
    for keys in PAIR_KEYS:
        if {*keys} <= {*names}:
            return _made(_judged_pairs(rows, keys), path)
    units = RELEVANT_UNITS.arrow().names
    if {*units} <= {*names}:
        return _made([{name: row[name] for name in units} for _, row in rows], path)
    if is_json_lines(path) or not rows:
        return _made(_judged_lines(rows), path)
    layouts = ((QUERY, GROUND_TRUTH), units, *PAIR_KEYS)
    allowed = ", or ".join(" and ".join((", ".join(one[:-1]), one[-1])) for one in layouts)
    raise DataError(f"needs {allowed}; found the columns {', '.join(names)}", file=path)


def _made(rows: Sequence[LabelRow], path: Path) -> Labels:
    if not rows:
        raise DataError("holds no judgments", file=path)
    return _labels(RELEVANT_UNITS.from_rows(list(rows)))


def _labels(judgments: pa.Table) -> Labels:
    """Return judgments with the relevant ids of each evidence, in the order of the table."""
    by_query: dict[str, dict[str, list[str]]] = {}
    for row in judgments.to_pylist():
        groups = by_query.setdefault(row["query_id"], {})
        if row["grade"] > 0:
            group = groups.setdefault(row["evidence_id"], [])
            group += [row["unit_id"]] if row["unit_id"] is not None else []
    return Labels(judgments, {q: tuple(map(tuple, own.values())) for q, own in by_query.items()})


def _label(query_id: str, evidence_id: str, unit_id: str | None, grade: int) -> LabelRow:
    return {"query_id": query_id, "evidence_id": evidence_id, "unit_id": unit_id, "grade": grade}


def _judged_pairs(rows: Iterable[tuple[Place, Row]], keys: tuple[str, str, str]) -> list[LabelRow]:
    """Return rows of query, document and grade as judgments, each an evidence of its own."""
    labels: dict[tuple[str, str], LabelRow] = {}
    for place, row in rows:
        query_id, document_id = (identifier(row, key, place) for key in keys[:2])
        if (query_id, document_id) in labels:
            raise place.error("the same judgment is already above")
        grade = checked_grade(row.get(keys[2]), place, keys[2])
        labels[query_id, document_id] = _label(query_id, document_id, document_id, grade)
    return list(labels.values())


def _judged_lines(rows: Iterable[tuple[Place, Row]]) -> list[LabelRow]:
    labels: dict[tuple[str, str, str], LabelRow] = {}
    for place, row in rows:
        query_id, document_id = (identifier(row, key, place) for key in ("query_id", "doc_id"))
        if any(row.get(key) is not None for key in QUOTE_KEYS):
            problem = "a quote is found in documents, which are not read here; use `evaluate`"
            raise place.error(problem, QUOTE_KEYS[0])
        # A line without an evidence is one of its own; the blank keeps the two kinds apart.
        is_named = row.get("evidence_id") is not None
        named = identifier(row, "evidence_id", place) if is_named else f"document {document_id}"
        if (query_id, named, document_id) in labels:
            raise place.error("the same judgment is already above")
        grade = checked_grade(row.get("relevance", 1), place, "relevance")
        labels[query_id, named, document_id] = _label(query_id, named, document_id, grade)
    return list(labels.values())


def _ground_truth(rows: Iterable[tuple[Place, Row]]) -> Labels:
    groups: Groups = {}
    labels: list[LabelRow] = []
    for place, row in rows:
        query_id = identifier(row, QUERY, place)
        if query_id in groups:
            raise place.error(f"query '{query_id}' stands twice", QUERY)
        groups[query_id] = _checked_groups(row[GROUND_TRUTH], place)
        labels += _group_labels(query_id, groups[query_id])
    return Labels(RELEVANT_UNITS.from_rows(labels), groups)


def _checked_groups(value: object, place: Place) -> tuple[tuple[str, ...], ...]:
    """Return the groups of a query; null means the same as nothing at each level."""

    def items_of(value: object) -> list[Any]:
        if value is not None and not isinstance(value, list):
            raise place.error("must be a list of lists of ids", GROUND_TRUTH)
        return value or []

    groups = [items_of(group) for group in items_of(value)]
    if not all(item is None or isinstance(item, str) for group in groups for item in group):
        raise place.error("must be a list of lists of ids", GROUND_TRUTH)
    return tuple(tuple(item or "" for item in group) for group in groups)


def _group_labels(query_id: str, groups: Iterable[tuple[str, ...]]) -> list[LabelRow]:
    """Return the judgments of a query; one without a unit where it has no ground truth."""
    named = [list(dict.fromkeys(item for item in group if item.strip())) for group in groups]
    rows = [
        _label(query_id, str(number), item, 1)
        for number, group in enumerate([group for group in named if group], 1)
        for item in group
    ]
    return rows or [_label(query_id, "1", None, 0)]
