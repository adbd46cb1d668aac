"""The rows of the explorer: queries, their results and evidences, by numbers of what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rag_assets.report.page.evidence import Evidence
from rag_assets.report.page.excerpts import Unit, shortened
from rag_assets.report.page.results import Results
from rag_assets.report.page.view import Context

Numbered = TypeVar("Numbered", str, Unit)

EVIDENCES, ALTERNATIVES, TAGS = 12, 8, 20
"""Evidences of one query, alternatives of one evidence, and tags of one query that are listed."""

QUERY_CHARACTERS = 600
"""Longer texts of queries are cut."""


@dataclass
class Tables:
    """What the rows of queries refer to by number."""

    units: dict[Unit, int] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)


def query_row(
    query: Context, results: Sequence[Results], evidence: Sequence[Evidence], tables: Tables
) -> Context:
    """Return one query: id, text, tags, values, results, which are relevant, and its evidences."""
    found = [one.of(query["query_id"]) for one in results]
    return {
        "i": shortened(query["query_id"]),
        "t": shortened(query["text"], QUERY_CHARACTERS),
        "g": [number(tables.tags, shortened(tag)) for tag in query["tags"][:TAGS]],
        "v": query["values"],
        "r": [[number(tables.units, hit.unit) for hit in hits] for hits in found],
        "h": [[n for n, hit in enumerate(hits) if hit.relevant] for hits in found],
        "e": [_evidence(one, tables) for one in evidence[:EVIDENCES]],
        "m": max(len(evidence) - EVIDENCES, 0),
    }


def _evidence(one: Evidence, tables: Tables) -> Context:
    spans = [
        [number(tables.documents, document), *([] if start is None else [start, end])]
        for document, start, end in one.spans[:ALTERNATIVES]
    ]
    return {"s": spans, "k": one.ranks, "l": one.places}


def number(numbers: dict[Numbered, int], value: Numbered) -> int:
    """Return the number of a value: that of its first appearance."""
    return numbers.setdefault(value, len(numbers))
