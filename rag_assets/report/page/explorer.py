"""The per-query explorer: what each retriever returned for a query, and where its evidence lies.

A page must stay small whatever the experiment is, so queries, results and texts are limited; what
was left out is said on the page. Texts are stored once, whoever returned them: rows refer to what
they share by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rag_assets.answers.waterfall_stage import CLASSES
from rag_assets.evaluation.attributions_stage import PLACES
from rag_assets.report.answer_waterfall import CLASS_NAMES
from rag_assets.report.attribution import LOSSES
from rag_assets.report.page.environment import escaped_json, rounded, shortened
from rag_assets.report.page.query_results import (
    Documents,
    Evidence,
    Hit,
    QueryAnswer,
    Unit,
    answers_to,
    evidence_of,
    excerpts,
    gold_answers,
    results_of,
)
from rag_assets.report.result import pairs_of
from rag_assets.report.view import Context, View

Numbered = TypeVar("Numbered", str, Unit)

EVIDENCES, ALTERNATIVES, TAGS = 12, 8, 20
"""Evidences of one query, alternatives of one evidence, and tags of one query that are listed."""

QUERY_CHARACTERS = 600
"""Longer texts of queries are cut."""

ANSWER_CHARACTERS, GOLDS, CONTEXT_UNITS = 400, 6, 10
"""Longer answers are cut; right answers of a query, and units of a context that are shown."""

CELLS = 10_000
"""Queries times retrievers and answerers, at most; fewer where they leave too little for texts."""

RESULTS = 50_000
"""Results in all, as long as each list keeps :data:`FEWEST`."""

FEWEST, DEEPEST = 5, 10
"""How many results of a query and retriever are shown."""

DATA_BYTES, LEAST_TEXTS = 2_300_000, 300_000
"""Of all data of the explorer as they stand in the page, and of these at least for texts."""


@dataclass
class _Tables:
    """What the rows of queries refer to by number."""

    units: dict[Unit, int] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)


@dataclass
class _Queries:
    """The queries that are shown, and what they refer to.

    ``size`` is that of everything but texts, in bytes of the page.
    """

    names: list[str]
    answerers: list[str]
    depth: int
    rows: list[Context]
    tables: _Tables
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
            "answerers": shown.answerers,
            "classes": [CLASS_NAMES[name] for name in CLASSES],
        },
    }


def _shown(view: View, cells: int) -> _Queries:
    """Return at most so many queries times retrievers and answerers."""
    names = [row["retriever"] for row in view.at_cutoff]
    n_answerers = len(view.result.evaluation.entries_of("answers"))
    queries = _shown_queries(view, names, max(1, cells // (len(names) + n_answerers)))
    ids = [query["query_id"] for query in queries]
    depth = min(max(FEWEST, RESULTS // (len(names) * max(len(ids), 1))), DEEPEST, view.cutoff)
    results = [results_of(view.result, name, view.cutoff, depth, ids) for name in names]
    evidence = evidence_of(view.result, names, ids)
    answered = answers_to(view.result, ids) if n_answerers else {}
    golds = gold_answers(view.result, ids) if n_answerers else {}
    tables = _Tables()
    rows = [_query_row(one, results, evidence.get(one["query_id"], []), tables) for one in queries]
    for row, query_id in zip(rows, ids, strict=True):
        row["u"] = int(view.result.answerable[query_id] is False)
        if answered:
            right = golds.get(query_id, ())[:GOLDS]
            row["o"] = [shortened(one, ANSWER_CHARACTERS) for one in right]
            row["a"] = [_answer(of.get(query_id), tables) for of in answered.values()]
    for unit in tables.units:
        _number(tables.documents, unit.document_id)
    documents = view.result.documents(tables.documents)
    titles = (documents.get(i, ("", ""))[0] for i in tables.documents)
    listed = [[shortened(i), shortened(t)] for i, t in zip(tables.documents, titles, strict=True)]
    shown = _Queries(names, list(answered), depth, rows, tables, evidence, documents, listed)
    everything = [rows, listed, list(tables.tags), _places(tables)]
    shown.size = len(escaped_json(everything).encode())
    return shown


def _places(tables: _Tables) -> list[list[int]]:
    """Return of each unit the number of its document, its start and its end."""
    return [[tables.documents[unit.document_id], unit.start, unit.end] for unit in tables.units]


def _units(shown: _Queries) -> tuple[list[list[Any]], int]:
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
    for one in (one for spans in evidence.values() for one in spans):
        for document_id, start, _ in one.spans:
            if start is not None:
                starts.setdefault(document_id, []).append(start)
    return starts


def _shown_queries(view: View, names: Sequence[str], most: int) -> list[Context]:
    """Return at most so many queries of the split, those first on which the retrievers differ most.

    Keys: ``query_id``, ``text``, ``tags``, and ``values``, the primary metric of each retriever in
    the order of ``names``; None where it has none, as it has no relevant label or failed.
    """
    cells = view.result.query_metrics(view.cutoff)
    values = [pairs_of(cells[name], "query_id", view.measure) for name in names]
    counted = view.result.weights(view.split)
    spread = {query_id: _spread([one.get(query_id) for one in values]) for query_id in counted}
    chosen = sorted(spread, key=lambda query_id: (-spread[query_id], query_id))[:most]
    table = view.result.queries
    columns = (table[column].to_pylist() for column in ("query_id", "text", "tags"))
    rows = {query_id: (text, tags) for query_id, text, tags in zip(*columns, strict=True)}
    return [
        {"query_id": query_id, "text": rows[query_id][0], "tags": rows[query_id][1]}
        | {"values": [rounded(one.get(query_id), 4) for one in values]}
        for query_id in chosen
    ]


def _spread(values: Sequence[float | None]) -> float:
    """Return highest minus lowest; queries without a value come last."""
    numbers = [value for value in values if value is not None]
    return max(numbers) - min(numbers) if numbers else -1.0


def _query_row(
    query: Context,
    results: Sequence[Mapping[str, Sequence[Hit]]],
    evidence: Sequence[Evidence],
    tables: _Tables,
) -> Context:
    """Return one query: id, text, tags, values, results, which are relevant, and its evidences."""
    hits_of = [hits.get(query["query_id"], ()) for hits in results]
    return {
        "i": shortened(query["query_id"]),
        "t": shortened(query["text"], QUERY_CHARACTERS),
        "g": [_number(tables.tags, shortened(tag)) for tag in query["tags"][:TAGS]],
        "v": query["values"],
        "r": [[_number(tables.units, hit.unit) for hit in hits] for hits in hits_of],
        "h": [[n for n, hit in enumerate(hits) if hit.relevant] for hits in hits_of],
        "e": [_evidence(one, tables) for one in evidence[:EVIDENCES]],
        "m": max(len(evidence) - EVIDENCES, 0),
    }


def _answer(one: QueryAnswer | None, tables: _Tables) -> list[object] | None:
    """Return text, error, EM, F1, number of the class, units, and how many units are left out."""
    if one is None:
        return None
    units = None
    if one.context is not None:
        units = [_number(tables.units, unit) for unit in one.context[:CONTEXT_UNITS]]
    return [
        None if one.text is None else shortened(one.text, ANSWER_CHARACTERS),
        None if one.error is None else shortened(one.error, ANSWER_CHARACTERS),
        one.em,
        rounded(one.f1, 4),
        None if one.outcome is None else CLASSES.index(one.outcome),
        units,
        max(len(one.context or ()) - CONTEXT_UNITS, 0),
    ]


def _evidence(one: Evidence, tables: _Tables) -> Context:
    spans = [
        [_number(tables.documents, document), *([] if start is None else [start, end])]
        for document, start, end in one.spans[:ALTERNATIVES]
    ]
    return {"s": spans, "k": one.ranks, "l": one.places}


def _number(numbers: dict[Numbered, int], value: Numbered) -> int:
    """Return the number of a value: that of its first appearance."""
    return numbers.setdefault(value, len(numbers))
