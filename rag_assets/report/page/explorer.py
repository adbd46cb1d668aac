"""The per-query explorer: what each retriever returned for a query, and where its evidence lies.

A page must stay small whatever the experiment is, so queries, results and texts are limited; what
was left out is said on the page. Texts are stored once, whoever returned them: rows refer to what
they share by number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.analysis.attribution import CLASS_NAMES, LOSSES
from rag_assets.analysis.result import EvaluationResult, Row, grouped
from rag_assets.answers.waterfall_stage import CLASSES
from rag_assets.evaluation.attributions_stage import PLACES
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.units import unit_spans
from rag_assets.pipeline.stored_evaluation import pairs_of, rows_of_queries
from rag_assets.retrieval.external.units import own_units
from rag_assets.sheets.environment import escaped_json, rounded, shortened
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey

CELLS = 5_000
"""Queries times retrievers and answerers, at most."""

DEPTH = 10
"""Results of a query and retriever, at most."""

EVIDENCES, ALTERNATIVES, TAGS = 12, 8, 20
"""Evidences of one query, alternatives of one evidence, and tags of one query that are listed."""

QUERY_CHARACTERS, TEXT_CHARACTERS, ANSWER_CHARACTERS = 600, 700, 400
"""Longer texts of queries and answers are cut; of a longer passage the part around its evidence."""

GOLDS, CONTEXT_UNITS = 6, 10
"""Right answers of a query, and units of a context that are shown."""

TEXT_BYTES = 1_600_000
"""Of all texts of passages together, as they are written into the page; others are left out."""

UNKNOWN = -1
"""Place of an evidence of which nobody knows where it was found or lost."""


class Unit(NamedTuple):
    """A span of a document, in characters of its text."""

    document_id: str
    start: int
    end: int


class Excerpt(NamedTuple):
    """A part of a unit, and the character of the document's text at which it starts."""

    start: int
    text: str


Numbered = TypeVar("Numbered", str, Unit)


@dataclass
class _Tables:
    """What the rows of queries refer to by number."""

    units: dict[Unit, int] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)


def explorer(result: EvaluationResult) -> Row | None:
    """Return the data of the explorer; None without a run, or where no query has a value."""
    names = [row["retriever"] for row in result.at_cutoff]
    names = names if result.has_metrics else result.run_retrievers
    if not names or (result.has_metrics and not result.ranked):
        return None
    answerers = [entry.partition["answerer"] for entry in result.evaluation.entries_of("answers")]
    queries = _queries(result, names, max(1, CELLS // (len(names) + len(answerers))))
    ids, tables = [query["query_id"] for query in queries], _Tables()
    depth = min(DEPTH, result.cutoff or DEPTH)
    results = [_results(result, name, result.cutoff, depth, ids, tables) for name in names]
    evidence, starts = _evidence(result, names, ids, tables)
    answers = {name: _answers(result, name, ids, tables) for name in answerers}
    golds = _by_query(result, QUERY_FACTS_KEY, ids) if answerers else {}
    rows = []
    for query in queries:
        query_id = query["query_id"]
        hits = [of.get(query_id, []) for of in results]
        row = {
            "i": shortened(query_id),
            "t": shortened(query["text"], QUERY_CHARACTERS),
            "g": [_number(tables.tags, shortened(tag)) for tag in query["tags"][:TAGS]],
            "v": query["values"],
            "r": [[unit for unit, _ in of] for of in hits],
            "h": [[n for n, (_, is_right) in enumerate(of) if is_right] for of in hits],
            "e": evidence.get(query_id, [])[:EVIDENCES],
            "m": max(len(evidence.get(query_id, [])) - EVIDENCES, 0),
            "u": int(result.answerable[query_id] is False),
        }
        if answerers:
            right = [text for answer in golds.get(query_id, []) for text in answer["answers"]]
            row["o"] = [shortened(text, ANSWER_CHARACTERS) for text in right[:GOLDS]]
            row["a"] = [answers[name].get(query_id) for name in answerers]
        rows.append(row)
    for unit in tables.units:
        _number(tables.documents, unit.document_id)
    documents = result.documents(tables.documents)
    numbers = dict.fromkeys(number for row in rows for of in row["r"] for number in of)
    every = list(tables.units)
    ordered = dict.fromkeys([*(every[number] for number in numbers), *every])
    texts = excerpts(documents, list(ordered), starts)
    units = [
        [tables.documents[unit.document_id], unit.start, unit.end, *texts.get(unit, ())]
        for unit in tables.units
    ]
    titles = [documents.get(document, ("", ""))[0] for document in tables.documents]
    listed = zip(tables.documents, titles, strict=True)
    return {
        "n_queries": len(_query_ids(result)),
        "n_shown": len(rows),
        "depth": depth,
        "length": TEXT_CHARACTERS,
        "n_texts": len(units),
        "n_without_text": len(units) - len(texts),
        "has_metrics": result.has_metrics,
        "data": lambda: {
            "retrievers": names,
            "metric": result.evaluation.primary if result.has_metrics else None,
            "k": result.cutoff,
            "depth": depth,
            "places": [LOSSES.get(place, place) for place in PLACES],
            "tags": list(tables.tags),
            "documents": [[shortened(text) for text in pair] for pair in listed],
            "units": units,
            "queries": rows,
            "answerers": answerers,
            "classes": [CLASS_NAMES[name] for name in CLASSES],
        },
    }


def excerpts(
    documents: Mapping[str, tuple[str, str]],
    units: Sequence[Unit],
    evidence: Mapping[str, Sequence[int]],
) -> dict[Unit, Excerpt]:
    """Return an excerpt of each unit that has a text; the last units have none where room is short.

    Args:
        documents: title and text of the units' documents.
        units: the most important first.
        evidence: document -> the characters at which evidence starts, in any order.
    """
    starts = {document_id: sorted(of_document) for document_id, of_document in evidence.items()}
    room, texts = TEXT_BYTES, dict[Unit, Excerpt]()
    for unit in units:
        if unit.document_id not in documents or unit.end <= unit.start:
            continue
        excerpt = _excerpt(documents[unit.document_id][1], unit, starts.get(unit.document_id, ()))
        room -= len(escaped_json(excerpt.text).encode())
        if room < 0:
            break
        texts[unit] = excerpt
    return texts


def _excerpt(text: str, unit: Unit, starts: Sequence[int]) -> Excerpt:
    """Return the part of a unit that holds the start of its first evidence, else its beginning."""
    start = unit.start
    if unit.end - unit.start > TEXT_CHARACTERS:
        place = bisect_left(starts, unit.start)
        if place < len(starts) and starts[place] < unit.end:
            before = starts[place] - TEXT_CHARACTERS // 4
            start = max(unit.start, min(before, unit.end - TEXT_CHARACTERS))
    return Excerpt(start, text[start : min(unit.end, start + TEXT_CHARACTERS)])


def _queries(view: EvaluationResult, names: Sequence[str], most: int) -> list[Row]:
    """Return at most so many queries of the split, those first on which the retrievers differ most.

    Each is a row of queries with ``values``, the primary metric of each retriever in the order of
    ``names``; None where it has none, as it has no relevant label or failed.
    """
    cells = view.query_metrics(view.cutoff)
    columns = [
        pairs_of(cells[name], "query_id", view.primary.column) if name in cells else {}
        for name in names
    ]
    values = {query: [of.get(query) for of in columns] for query in _query_ids(view)}

    def spread(query_id: str) -> float:
        numbers = [value for value in values[query_id] if value is not None]
        return max(numbers) - min(numbers) if numbers else -1.0

    chosen = sorted(values, key=lambda query_id: (-spread(query_id), query_id))[:most]
    rows = {row["query_id"]: row for row in view.queries.to_pylist()}
    return [{**rows[query], "values": [rounded(v, 4) for v in values[query]]} for query in chosen]


def _query_ids(view: EvaluationResult) -> list[str]:
    """Return the queries of the split; without labels all of them."""
    if not view.has_metrics:
        return list(view.queries["query_id"].to_pylist())
    return list(view.weights(view.split))


def _results(
    result: EvaluationResult,
    retriever: str,
    top_k: int,
    depth: int,
    query_ids: Sequence[str],
    tables: _Tables,
) -> dict[str, list[tuple[int, bool]]]:
    """Return query -> the unit of each of the first results, and whether it is relevant."""
    keys = result.run_keys(retriever)
    deep_enough = min((k for k in keys if k >= top_k), default=max(keys))
    run = rows_of_queries(result.table(keys[deep_enough]), query_ids)
    run = run.filter(pc.less_equal(run["rank"], depth))
    run = run.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    judged = _by_query(result, relevant_units_key(retriever), query_ids)
    relevant = {
        (query_id, row["unit_id"])
        for query_id, rows in judged.items()
        for row in rows
        if row["grade"] > 0
    }
    units = dict(_spans(result, retriever, run))
    hits: dict[str, list[tuple[int, bool]]] = {}
    # Where documents are judged, a text is that of their best chunk; so it is without labels.
    first, second = ("unit_id", "chunk_id") if result.has_metrics else ("chunk_id", "unit_id")
    for row in run.to_pylist():
        unit = units.get(row[first]) or units.get(row[second])
        number = _number(tables.units, unit or Unit(row["document_id"], 0, 0))
        is_relevant = (row["query_id"], row["unit_id"]) in relevant
        hits.setdefault(row["query_id"], []).append((number, is_relevant))
    return hits


def _spans(result: EvaluationResult, retriever: str, run: pa.Table) -> Iterator[tuple[str, Unit]]:
    """Yield id and span of what is returned for it; only those of the run are read.

    Without labels nothing says what is returned for a chunk: it is the chunk itself.
    """
    ids = pc.unique(pa.chunked_array([*run["unit_id"].chunks, *run["chunk_id"].chunks]))
    path = result.path(retriever_contexts_key(retriever))
    if path is not None:
        import pyarrow.dataset as ds

        columns = {name: ds.field(name) for name in ("document_id", "start", "end")}
        columns["unit_id"] = ds.field("context_id")
        yield from _units_of(
            ds.dataset(path).to_table(columns, filter=columns["unit_id"].isin(ids))
        )
        return
    known_ids: set[str] = set()
    for asset in ("chunks", "external_hits"):
        for entry in result.evaluation.entries_of(asset):
            table = result.table(entry.key)
            spans = unit_spans(table if asset == "chunks" else own_units(table))
            spans = spans.filter(pc.is_in(spans["unit_id"], value_set=ids))
            known_ids.update(spans["unit_id"].to_pylist())
            yield from _units_of(spans)
    for row in run.to_pylist():  # where documents are retrieved, their beginning
        if row["unit_id"] not in known_ids and row["chunk_id"] not in known_ids:
            yield row["unit_id"], Unit(row["document_id"], 0, TEXT_CHARACTERS)


def _units_of(spans: pa.Table) -> Iterator[tuple[str, Unit]]:
    for row in spans.to_pylist():
        yield row["unit_id"], Unit(row["document_id"], row["start"], row["end"])


def _evidence(
    result: EvaluationResult, names: Sequence[str], query_ids: Sequence[str], tables: _Tables
) -> tuple[dict[str, list[Row]], dict[str, list[int]]]:
    """Return query -> its relevant evidences, and document -> where evidence starts in it.

    Of an evidence ``s`` are its alternatives, and of each retriever ``k`` the first rank in its
    stored ranking and ``l`` the number of the place where it was found or lost.
    """
    places = [_places(result, name, query_ids) for name in names]
    starts: dict[str, list[int]] = {}
    spans: dict[tuple[str, str], list[list[int]]] = {}
    judged = _by_query(result, QRELS_KEY, query_ids)
    for row in (row for rows in judged.values() for row in rows):
        if row["grade"] > 0:
            span = [_number(tables.documents, row["document_id"])]
            if row["start"] is not None:
                starts.setdefault(row["document_id"], []).append(row["start"])
                span += [row["start"], row["end"]]
            spans.setdefault((row["query_id"], row["evidence_id"]), []).append(span)
    evidence: dict[str, list[Row]] = {}
    for key, alternatives in spans.items():
        outcomes = [of.get(key, (None, UNKNOWN)) for of in places]
        outcome = {"s": alternatives[:ALTERNATIVES], "k": [rank for rank, _ in outcomes]}
        evidence.setdefault(key[0], []).append({**outcome, "l": [place for _, place in outcomes]})
    return evidence, starts


def _places(
    result: EvaluationResult, retriever: str, query_ids: Sequence[str]
) -> Mapping[tuple[str, str], tuple[int | None, int]]:
    """Return (query, evidence) -> rank and place; empty for a retriever without attributions."""
    if not result.evaluation.entries_of("attributions") or retriever not in result.attributions:
        return {}
    return {
        (row["query_id"], row["evidence_id"]): (row["rank"], PLACES.index(row["lost_at"]))
        for row in rows_of_queries(result.attributions[retriever], query_ids).to_pylist()
    }


def _answers(
    result: EvaluationResult, answerer: str, query_ids: Sequence[str], tables: _Tables
) -> dict[str, list[Any]]:
    """Return query -> text (empty: refused; None: failed), error, EM, F1, class, context, and rest.

    The class and the context are numbers; the rest is how many units of the context are left out.
    """
    answers, metrics, outcomes, contexts = (
        _by_query(result, ArtifactKey.of(asset, answerer=answerer), query_ids)
        for asset in ("answers", "answer_metrics", "answer_waterfall", "answer_contexts")
    )
    has_contexts = result.has(ArtifactKey.of("answer_contexts", answerer=answerer))
    rows = {}
    for query_id, (answer,) in answers.items():
        metric = metrics.get(query_id, [{}])[0]
        outcome = outcomes.get(query_id, [{}])[0].get("outcome")
        context = sorted(contexts.get(query_id, []), key=lambda row: int(row["position"]))
        spans = (Unit(r["document_id"], r["start"], r["end"]) for r in context[:CONTEXT_UNITS])
        rows[query_id] = [
            *(
                None if answer[name] is None else shortened(answer[name], ANSWER_CHARACTERS)
                for name in ("answer", "error")
            ),
            metric.get("answer_em"),
            rounded(metric.get("answer_f1"), 4),
            None if outcome is None else CLASSES.index(outcome),
            [_number(tables.units, unit) for unit in spans] if has_contexts else None,
            max(len(context) - CONTEXT_UNITS, 0),
        ]
    return rows


def _by_query(
    result: EvaluationResult, key: ArtifactKey, query_ids: Sequence[str]
) -> dict[str, list[Row]]:
    """Return query -> its rows in a table; empty where the evaluation does not have it."""
    table = rows_of_queries(result.table(key), query_ids) if result.has(key) else None
    return {} if table is None else grouped(table.to_pylist(), "query_id")


def _number(numbers: dict[Numbered, int], value: Numbered) -> int:
    """Return the number of a value: that of its first appearance."""
    return numbers.setdefault(value, len(numbers))
