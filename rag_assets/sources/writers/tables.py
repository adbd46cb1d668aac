"""What writers are given, and the texts and notes that all of them write alike.

Evidence becomes plain pairs of query and document for formats that know nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.store.canonical import canonical_json

BATCH_ROWS = 4096
Pair = tuple[str, str]


class Tables(NamedTuple):
    """The three tables of a dataset (``schemas.DOCUMENTS``, ``QUERIES``, ``QRELS``)."""

    documents: pa.Table
    queries: pa.Table
    qrels: pa.Table


Writer = Callable[[Tables, Path], list[str]]
"""Writes tables into a folder that exists; returns a note on each thing that is not kept."""


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, never all at once."""
    for batch in table.to_batches(BATCH_ROWS):
        yield from batch.to_pylist()


def metadata_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document or query."""
    fields: dict[str, Any] = json.loads(row["metadata"])
    return fields


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines that end in a line feed, as UTF-8."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def counted(number: int, one: str, many: str) -> list[str]:
    """Return the note ``'2 titles are not kept'``, or none for 0."""
    return [f"{number} {one if number == 1 else many}"] if number else []


def corpus_lines(documents: pa.Table) -> Iterator[str]:
    """Yield documents as lines of a BEIR corpus."""
    for row in rows_of(documents):
        line = {"_id": row["document_id"], "title": row["title"], "text": row["text"]}
        metadata = metadata_of(row)
        yield canonical_json({**line, "metadata": metadata} if metadata else line)


def refuse_ids(tables: Tables, unfit: Callable[[str], bool], why: str) -> None:
    """Refuse ids that the format cannot hold: a judgment that points nowhere is worse than none.

    Raises:
        DataError: there is such an id; names the first.
    """
    for kind, ids in (
        ("document", tables.documents.column("document_id")),
        ("document", tables.qrels.column("document_id")),  # kept, though not in the corpus
        ("query", tables.queries.column("query_id")),
    ):
        for name in ids.to_pylist():
            if unfit(name):
                raise DataError(f"{kind} id {name!r} {why}")


def flat_pairs(qrels: pa.Table) -> tuple[dict[Pair, int], list[str]]:
    """Return the highest grade of every query and document, and what that loses."""
    grades: dict[Pair, int] = {}
    documents: dict[Pair, set[str]] = {}
    named: set[Pair] = set()
    facts: Counter[str] = Counter()
    for row in rows_of(qrels):
        pair = (row["query_id"], row["document_id"])
        facts["span"] += row["start"] is not None
        facts["merged"] += pair in grades
        grades[pair] = max(row["grade"], grades.get(pair, row["grade"]))
        evidence = (row["query_id"], row["evidence_id"])
        documents.setdefault(evidence, set()).add(row["document_id"])
        if row["evidence_id"] != own_name(row):
            named.add(evidence)
    groups = {evidence for evidence, judged in documents.items() if len(judged) > 1}
    notes = counted(
        facts["span"],
        "span is written as its whole document",
        "spans are written as their whole documents",
    )
    notes += counted(
        facts["merged"],
        "judgment of a document that is judged already is merged into one of the highest grade",
        "judgments of a document that is judged already are merged into one of the highest grade",
    )
    notes += counted(
        len(groups),
        "group of alternatives is written as judgments of their own",
        "groups of alternatives are written as judgments of their own",
    )
    notes += counted(len(named - groups), "evidence id is not kept", "evidence ids are not kept")
    return grades, notes


def positive(grades: dict[Pair, int]) -> tuple[list[Pair], list[str]]:
    """Return the relevant pairs, and what a format without grades loses."""
    below = sum(grade <= 0 for grade in grades.values())
    above = sum(grade > 1 for grade in grades.values())
    notes = counted(
        below, "judgment of a grade below 1 is not kept", "judgments of grades below 1 are not kept"
    )
    notes += counted(above, "grade above 1 is written as 1", "grades above 1 are written as 1")
    return [pair for pair, grade in grades.items() if grade > 0], notes


def own_name(row: dict[str, Any]) -> str:
    """Return the id of an evidence that nobody has named."""
    if row["start"] is None:
        return str(row["document_id"])
    return f"{row['document_id']}#{row['start']}-{row['end']}"


def lost_fields(facts: Counter[str]) -> list[str]:
    """Return notes on queries whose ``tags`` and ``metadata`` are not kept."""
    tags = counted(facts["tags"], "query loses its tags", "queries lose their tags")
    many = "queries lose their metadata"
    return tags + counted(facts["metadata"], "query loses its metadata", many)
