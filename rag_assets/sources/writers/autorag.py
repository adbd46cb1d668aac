"""Writes AutoRAG folders: ``corpus.parquet`` and ``qa.parquet``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.sources.autorag import ANSWERS
from rag_assets.sources.writers.tables import (
    Pair,
    Tables,
    counted,
    lost_fields,
    metadata_of,
    rows_of,
)
from rag_assets.store.canonical import canonical_json

_ANSWERS = (ANSWERS, "answers")
_GROUPS = pa.list_(pa.list_(pa.string()))

_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}
_LARGEST = 2**63


def write_autorag(tables: Tables, folder: Path) -> list[str]:
    """Write the tables; the evidences of a query are the groups of its ``retrieval_gt``.

    Titles become ``metadata.title``. ``generation_gt`` is the metadata field of this name, else
    ``answers``, where it is a list of texts. A query without ground truth gets ``[[]]``.
    """
    return _write_corpus(tables.documents, folder) + _write_qa(tables, folder)


def _write_corpus(documents: pa.Table, folder: Path) -> list[str]:
    titles = as_metadata = 0
    metadata: list[dict[str, Any]] = []
    for row in rows_of(documents):
        fields = metadata_of(row)
        if row["title"]:
            titles += 1
            as_metadata += "title" not in fields
            fields.setdefault("title", row["title"])
        metadata.append(fields)
    column, notes = _metadata_column(metadata)
    columns = {"doc_id": documents.column("document_id"), "contents": documents.column("text")}
    if column is not None:
        columns["metadata"] = column
    pq.write_table(pa.table(columns), folder / "corpus.parquet")
    as_field = counted(
        as_metadata, "title is written as metadata.title", "titles are written as metadata.title"
    )
    lost = "loses its title: metadata.title is another"
    many = "lose their titles: metadata.title is another"
    return as_field + counted(titles - as_metadata, f"document {lost}", f"documents {many}") + notes


def _write_qa(tables: Tables, folder: Path) -> list[str]:
    groups, notes = _groups(tables.qrels)
    facts: Counter[str] = Counter()
    answers: list[list[str]] = []
    for row in rows_of(tables.queries):
        fields = metadata_of(row)
        used = next((key for key in _ANSWERS if _are_texts(fields.get(key))), None)
        answers.append(fields.pop(used) if used is not None else [])
        facts["answers"] += used == "answers"
        facts["tags"] += bool(row["tags"])
        facts["metadata"] += bool(fields)
    ids = tables.queries.column("query_id")
    truth = [list(groups.get(query_id, {"": []}).values()) for query_id in ids.to_pylist()]
    columns = {
        "qid": ids,
        "query": tables.queries.column("text"),
        "retrieval_gt": pa.array(truth, _GROUPS),
        "generation_gt": pa.array(answers, pa.list_(pa.string())),
    }
    pq.write_table(pa.table(columns), folder / "qa.parquet")
    singular = "query's `answers` are written as generation_gt"
    many = "queries' `answers` are written as generation_gt"
    return notes + counted(facts["answers"], singular, many) + lost_fields(facts)


def _groups(qrels: pa.Table) -> tuple[dict[str, dict[str, list[str]]], list[str]]:
    """Return for each query its evidences with their documents, and what that loses."""
    groups: dict[str, dict[str, list[str]]] = {}
    facts: Counter[str] = Counter()
    evidences: set[Pair] = set()
    for row in rows_of(qrels):
        if row["grade"] <= 0:
            facts["below"] += 1
            continue
        facts["above"] += row["grade"] > 1
        facts["spans"] += row["start"] is not None
        evidences.add((row["query_id"], row["evidence_id"]))
        documents = groups.setdefault(row["query_id"], {}).setdefault(row["evidence_id"], [])
        facts["merged"] += row["document_id"] in documents
        if row["document_id"] not in documents:
            documents.append(row["document_id"])
    facts["named"] = sum(
        evidence != str(number)
        for by_evidence in groups.values()
        for number, evidence in enumerate(by_evidence, start=1)
    )
    return groups, _notes(facts)


def _notes(facts: Counter[str]) -> list[str]:
    sentences = {
        "spans": (
            "span is written as its whole document",
            "spans are written as their whole documents",
        ),
        "merged": (
            "alternative in a document that the evidence names already is merged with it",
            "alternatives in a document that the evidence names already are merged with it",
        ),
        "below": (
            "judgment of a grade below 1 is not kept",
            "judgments of grades below 1 are not kept",
        ),
        "above": ("grade above 1 is written as 1", "grades above 1 are written as 1"),
        "named": (
            "evidence id is replaced by its number",
            "evidence ids are replaced by their numbers",
        ),
    }
    return [line for fact, words in sentences.items() for line in counted(facts[fact], *words)]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) for v in value)


def _metadata_column(rows: list[dict[str, Any]]) -> tuple[pa.Array | None, list[str]]:
    """Return a struct with every field of any document, and notes on what it changes.

    A field whose values are all texts, all integers, all other numbers or all booleans is of that
    type; any other is JSON text. A field that a document does not have is null, as one that is
    null there. There is no column when no document has a field.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        return None, []
    types = {
        name: _column_type([row[name] for row in rows if row.get(name) is not None])
        for name in names
    }
    nulls = sum(value is None for row in rows for value in row.values())
    encoded = [name for name, type_ in types.items() if type_ is None]
    columns = [
        pa.array([_cell(row.get(name), type_) for row in rows], type_ or pa.string())
        for name, type_ in types.items()
    ]
    notes = counted(
        len(encoded),
        f"metadata field is written as JSON text: {', '.join(encoded[:5])}",
        f"metadata fields are written as JSON text: {', '.join(encoded[:5])}",
    )
    notes += counted(
        nulls,
        "metadata value that is null is not kept",
        "metadata values that are null are not kept",
    )
    return pa.StructArray.from_arrays(columns, names=list(names)), notes


def _column_type(values: list[Any]) -> pa.DataType | None:
    kinds = {type(value) for value in values}
    if len(kinds) > 1:
        return None
    kind = kinds.pop() if kinds else str
    if kind is int and not all(-_LARGEST <= value < _LARGEST for value in values):
        return None
    return _TYPES.get(kind)


def _cell(value: Any, kind: pa.DataType | None) -> Any:  # noqa: ANN401 (any JSON value)
    return canonical_json(value) if kind is None and value is not None else value
