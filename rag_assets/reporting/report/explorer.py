"""The per-query explorer: what each retriever returned for a query, and where its evidence lies.

A page must stay small whatever the experiment is, so queries, results and texts are limited; what
was left out is said on the page. Texts are stored once, whoever returned them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rag_assets.evaluation.attribution import PLACES
from rag_assets.pipeline.stages.sources import DOCUMENTS_KEY
from rag_assets.reporting.report.evidence import Evidence, evidence_of
from rag_assets.reporting.report.excerpts import Unit, excerpts, read_documents
from rag_assets.reporting.report.results import Results, results_of
from rag_assets.reporting.report.shown_queries import shown_queries
from rag_assets.reporting.report.stages import LOSSES
from rag_assets.reporting.report.view import Context, View

Numbered = TypeVar("Numbered", str, Unit)

CELLS = 10_000
"""Queries times retrievers, at most."""

RESULTS = 50_000
"""Results in all, as long as each list keeps :data:`FEWEST`."""

FEWEST, DEEPEST = 5, 10
"""How many results of a query and retriever are shown."""

EVIDENCES = 12
"""Evidences of one query that are listed."""

QUERY_CHARACTERS, ID_CHARACTERS = 600, 160
"""Longer texts of queries, and longer ids, titles and tags, are cut."""


@dataclass
class _Tables:
    """What the rows of queries refer to by number."""

    units: dict[Unit, int] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)


def explorer(view: View) -> Context | None:
    """Return the data of the explorer; None without labels, or without a value of the metric."""
    if not view.ranked:
        return None
    names = [row["retriever"] for row in view.at_cutoff]
    queries = shown_queries(view, names, max(1, CELLS // len(names)))
    ids = [query["query_id"] for query in queries]
    depth = min(max(FEWEST, RESULTS // (len(names) * max(len(ids), 1))), DEEPEST, view.cutoff)
    results = [results_of(view.result, name, view.cutoff, depth, ids) for name in names]
    evidence = evidence_of(view.result, names, ids)
    tables = _Tables()
    rows = [_row(query, results, evidence.get(query["query_id"], []), tables) for query in queries]
    texts, length = _texts(view, tables, evidence)
    return {
        "n_queries": len(view.result.weights(view.split)),
        "n_shown": len(queries),
        "depth": depth,
        "length": length,
        "n_texts": len(tables.units),
        "n_without_text": sum(len(unit) < 4 for unit in texts["units"]),
        "data": {
            "retrievers": names,
            "metric": view.result.evaluation.primary,
            "k": view.cutoff,
            "depth": depth,
            "places": [LOSSES.get(place, place) for place in PLACES],
            "tags": list(tables.tags),
            **texts,
            "queries": rows,
        },
    }


def _row(
    query: Context, results: Sequence[Results], evidence: Sequence[Evidence], tables: _Tables
) -> Context:
    """Return one query: id, text, tags, values, results, which are relevant, and its evidences."""
    found = [one.of(query["query_id"]) for one in results]
    return {
        "i": shortened(query["query_id"]),
        "t": shortened(query["text"], QUERY_CHARACTERS),
        "g": [_number(tables.tags, shortened(tag)) for tag in query["tags"]],
        "v": query["values"],
        "r": [[_number(tables.units, hit.unit) for hit in hits] for hits in found],
        "h": [[n for n, hit in enumerate(hits) if hit.relevant] for hits in found],
        "e": [_evidence(one, tables) for one in evidence[:EVIDENCES]],
        "m": max(len(evidence) - EVIDENCES, 0),
    }


def _evidence(one: Evidence, tables: _Tables) -> Context:
    spans = [
        [_number(tables.documents, document), *([] if start is None else [start, end])]
        for document, start, end in one.spans
    ]
    return {"s": spans, "k": one.ranks, "l": one.places}


def _texts(
    view: View, tables: _Tables, evidence: Mapping[str, Sequence[Evidence]]
) -> tuple[Context, int]:
    """Return units and documents in the order of their numbers, and the length of an excerpt.

    A unit is document, start, end, and where it has a text, the excerpt's start and text.
    """
    for unit in tables.units:
        _number(tables.documents, unit.document_id)
    path = view.result.path(DOCUMENTS_KEY)
    documents = read_documents(path, tables.documents) if path is not None else {}
    texts, length = excerpts(documents, list(tables.units), _starts(evidence))
    units = [
        [tables.documents[unit.document_id], unit.start, unit.end, *texts.get(unit, ())]
        for unit in tables.units
    ]
    listed = [[shortened(i), shortened(documents.get(i, ("", ""))[0])] for i in tables.documents]
    return {"units": units, "documents": listed}, length


def _starts(evidence: Mapping[str, Sequence[Evidence]]) -> dict[str, list[int]]:
    """Return document -> the characters at which evidence starts in it."""
    starts: dict[str, list[int]] = {}
    for one in (one for found in evidence.values() for one in found):
        for document_id, start, _ in one.spans:
            if start is not None:
                starts.setdefault(document_id, []).append(start)
    return starts


def _number(numbers: dict[Numbered, int], value: Numbered) -> int:
    """Return the number of a value: that of its first appearance."""
    return numbers.setdefault(value, len(numbers))


def shortened(text: str, characters: int = ID_CHARACTERS) -> str:
    """Return the text, cut behind so many characters, with dots for the rest."""
    return text if len(text) <= characters else f"{text[:characters]}..."
