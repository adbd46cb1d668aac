"""Evidence as plain pairs of query and document, for formats that know nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from rag_assets.sources.writers.tables import counted, rows_of

Pair = tuple[str, str]


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
    groups = {evidence for evidence, found in documents.items() if len(found) > 1}
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
