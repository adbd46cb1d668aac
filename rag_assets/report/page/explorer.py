"""The per-query explorer: what each retriever returned for a query, and where its evidence lies.

A page must stay small whatever the experiment is, so queries, results and texts are limited; what
was left out is said on the page. Texts are stored once, whoever returned them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_assets.evaluation.attribution import PLACES
from rag_assets.report.page.embedded_json import escaped_json
from rag_assets.report.page.evidence import Evidence, evidence_of
from rag_assets.report.page.excerpts import Documents, excerpts, read_documents, shortened
from rag_assets.report.page.explorer_rows import Tables, number, query_row
from rag_assets.report.page.results import results_of
from rag_assets.report.page.shown_queries import shown_queries
from rag_assets.report.page.stages import LOSSES
from rag_assets.report.page.view import Context, View
from rag_assets.sources.stage import DOCUMENTS_KEY

CELLS = 10_000
"""Queries times retrievers, at most; fewer where these rows leave too little for texts."""

RESULTS = 50_000
"""Results in all, as long as each list keeps :data:`FEWEST`."""

FEWEST, DEEPEST = 5, 10
"""How many results of a query and retriever are shown."""

DATA_BYTES, LEAST_TEXTS = 2_300_000, 300_000
"""Of all data of the explorer as they stand in the page, and of these at least for texts."""


@dataclass
class _Shown:
    """The queries that are shown, and what they refer to.

    ``size`` is that of everything but texts, in bytes of the page.
    """

    names: list[str]
    depth: int
    rows: list[Context]
    tables: Tables
    evidence: Mapping[str, Sequence[Evidence]]
    documents: Documents
    listed: list[list[str]]
    size: int = 0


def explorer(view: View) -> Context | None:
    """Return the data of the explorer; None without labels, or without a value of the metric."""
    if not view.ranked:
        return None
    cells = CELLS
    shown = _shown(view, cells)
    while shown.size > DATA_BYTES - LEAST_TEXTS and len(shown.rows) > 1:
        cells //= 2
        shown = _shown(view, cells)
    units, length = _units(shown)
    return {
        "n_queries": len(view.result.weights(view.split)),
        "n_shown": len(shown.rows),
        "depth": shown.depth,
        "length": length,
        "n_texts": len(units),
        "n_without_text": sum(len(unit) < 4 for unit in units),
        "data": {
            "retrievers": shown.names,
            "metric": view.result.evaluation.primary,
            "k": view.cutoff,
            "depth": shown.depth,
            "places": [LOSSES.get(place, place) for place in PLACES],
            "tags": list(shown.tables.tags),
            "documents": shown.listed,
            "units": units,
            "queries": shown.rows,
        },
    }


def _shown(view: View, cells: int) -> _Shown:
    """Return at most so many queries times retrievers."""
    names = [row["retriever"] for row in view.at_cutoff]
    queries = shown_queries(view, names, max(1, cells // len(names)))
    ids = [query["query_id"] for query in queries]
    depth = min(max(FEWEST, RESULTS // (len(names) * max(len(ids), 1))), DEEPEST, view.cutoff)
    results = [results_of(view.result, name, view.cutoff, depth, ids) for name in names]
    evidence = evidence_of(view.result, names, ids)
    tables = Tables()
    rows = [query_row(one, results, evidence.get(one["query_id"], []), tables) for one in queries]
    for unit in tables.units:
        number(tables.documents, unit.document_id)
    path = view.result.path(DOCUMENTS_KEY)
    documents = read_documents(path, tables.documents) if path is not None else {}
    listed = [[shortened(i), shortened(documents.get(i, ("", ""))[0])] for i in tables.documents]
    shown = _Shown(names, depth, rows, tables, evidence, documents, listed)
    everything = [rows, listed, list(tables.tags), _places(tables)]
    shown.size = len(escaped_json(everything).encode())
    return shown


def _places(tables: Tables) -> list[list[int]]:
    """Return of each unit the number of its document, its start and its end."""
    return [[tables.documents[unit.document_id], unit.start, unit.end] for unit in tables.units]


def _units(shown: _Shown) -> tuple[list[list[int | str]], int]:
    """Return a row a unit, and the length of an excerpt.

    A row is document, start, end, and where the unit has a text, the excerpt's start and text.
    """
    units, starts = list(shown.tables.units), _starts(shown.evidence)
    texts, length = excerpts(shown.documents, units, starts, DATA_BYTES - shown.size)
    rows = zip(_places(shown.tables), units, strict=True)
    return [[*place, *texts.get(unit, ())] for place, unit in rows], length


def _starts(evidence: Mapping[str, Sequence[Evidence]]) -> dict[str, list[int]]:
    """Return document -> the characters at which evidence starts in it."""
    starts: dict[str, list[int]] = {}
    for one in (one for found in evidence.values() for one in found):
        for document_id, start, _ in one.spans:
            if start is not None:
                starts.setdefault(document_id, []).append(start)
    return starts
