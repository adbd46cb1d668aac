"""What retrievers and answerers returned for some queries, where the evidence lies, and texts.

Texts are excerpts, each once, as long as the page can hold them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from rag_assets.evaluation.attributions_stage import PLACES
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.report.page.environment import escaped_json
from rag_assets.report.result import EvaluationResult
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey

Row = dict[str, Any]

TEXT_BYTES = 1_600_000
"""Of all texts together, as they are written into the page, at most."""

LENGTHS = (1500, 1000, 700, 500, 350, 250, 160)
"""Characters of one text: the first with which all fit, else the last."""


class Unit(NamedTuple):
    """A span of a document, in characters of its text."""

    document_id: str
    start: int
    end: int


class Excerpt(NamedTuple):
    """A part of a unit, and the character of the document's text at which it starts."""

    start: int
    text: str


Documents = Mapping[str, tuple[str, str]]
"""Document -> title and text."""


def excerpts(
    documents: Documents,
    units: Sequence[Unit],
    evidence: Mapping[str, Sequence[int]],
    room: int = TEXT_BYTES,
) -> tuple[dict[Unit, Excerpt], int]:
    """Return an excerpt of each unit that has a text, and how many characters one has at most.

    The excerpts get shorter until all fit into ``room``; if the shortest ones do not,
    the last units have none.

    Args:
        documents: title and text of the units' documents.
        units: the most important first.
        evidence: document -> the characters at which evidence starts, in any order.
        room: bytes in the page; more than :data:`TEXT_BYTES` is not used.
    """
    starts = {document_id: sorted(of_document) for document_id, of_document in evidence.items()}
    with_text = [unit for unit in units if unit.document_id in documents and unit.end > unit.start]
    for length in LENGTHS:
        left, fitting = min(room, TEXT_BYTES), dict[Unit, Excerpt]()
        for unit in with_text:
            excerpt = _excerpt(documents[unit.document_id][1], unit, starts, length)
            left -= len(escaped_json(excerpt.text).encode())
            if left < 0:
                break
            fitting[unit] = excerpt
        if len(fitting) == len(set(with_text)):
            break
    return fitting, length


def _excerpt(text: str, unit: Unit, starts: Mapping[str, Sequence[int]], length: int) -> Excerpt:
    """Return the part of a unit that holds the start of its first evidence, else its beginning."""
    start = unit.start
    if unit.end - unit.start > length:
        of_document = starts.get(unit.document_id, ())
        place = bisect_left(of_document, unit.start)
        if place < len(of_document) and of_document[place] < unit.end:
            before = of_document[place] - length // 4
            start = max(unit.start, min(before, unit.end - length))
    return Excerpt(start, text[start : min(unit.end, start + length)])


class Hit(NamedTuple):
    """One result: its text, and whether it satisfies an evidence of the query."""

    unit: Unit
    relevant: bool


def results_of(
    result: EvaluationResult, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
) -> dict[str, list[Hit]]:
    """Return query -> the first ``depth`` results of the run at ``top_k``, of some queries."""
    run = _of_queries(result.table(result.run_keys(retriever)[top_k]), query_ids)
    run = run.filter(pc.less_equal(run["rank"], depth))
    run = run.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    table = _of_queries(result.table(relevant_units_key(retriever)), query_ids)
    table = table.filter(pc.greater(table["grade"], 0))
    relevant = set(zip(table["query_id"].to_pylist(), table["unit_id"].to_pylist(), strict=True))
    units = _units(result, retriever, run)
    hits: dict[str, list[Hit]] = {}
    names = ("query_id", "unit_id", "chunk_id", "document_id")
    for query_id, item, chunk, document in zip(*(run[n].to_pylist() for n in names), strict=True):
        # Where documents are judged, a text is that of their best chunk.
        unit = units.get(item) or units.get(chunk) or Unit(document, 0, 0)
        hits.setdefault(query_id, []).append(Hit(unit, (query_id, item) in relevant))
    return hits


def _units(result: EvaluationResult, retriever: str, run: pa.Table) -> dict[str, Unit]:
    """Return id -> the span that is returned for it; only those of the run are read."""
    ids = pc.unique(pa.chunked_array([*run["unit_id"].chunks, *run["chunk_id"].chunks]))
    path = result.path(retriever_contexts_key(retriever))
    if path is None:
        return {}
    columns = ["context_id", "document_id", "start", "end"]
    table = ds.dataset(path).to_table(columns, filter=ds.field("context_id").isin(ids))
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return {context_id: Unit(document, start, end) for context_id, document, start, end in rows}


Span = tuple[str, int | None, int | None]
"""Document, and first and last character + 1; None: the whole document."""

UNKNOWN = -1


@dataclass(frozen=True)
class Evidence:
    """One relevant evidence of a query.

    Attributes:
        spans: its alternatives: any of them is enough.
        ranks: of each retriever the first rank in its stored ranking; None: not in it.
        places: of each retriever the number in ``PLACES`` of where it was found or lost; -1 where
            that is not known.
    """

    spans: list[Span]
    ranks: list[int | None]
    places: list[int]


def evidence_of(
    result: EvaluationResult, names: Sequence[str], query_ids: Sequence[str]
) -> dict[str, list[Evidence]]:
    """Return query -> its relevant evidences, ranks in the order of ``names``."""
    places = [_places(result, name, query_ids) for name in names]
    spans: dict[tuple[str, str], list[Span]] = {}
    for row in _of_queries(result.table(QRELS_KEY), query_ids).to_pylist():
        if row["grade"] > 0:
            span = row["document_id"], row["start"], row["end"]
            spans.setdefault((row["query_id"], row["evidence_id"]), []).append(span)
    evidences: dict[str, list[Evidence]] = {}
    for key, of_evidence in spans.items():
        ranked = [one.get(key, (None, UNKNOWN)) for one in places]
        evidence = Evidence(of_evidence, [rank for rank, _ in ranked], [at for _, at in ranked])
        evidences.setdefault(key[0], []).append(evidence)
    return evidences


def _places(
    result: EvaluationResult, retriever: str, query_ids: Sequence[str]
) -> Mapping[tuple[str, str], tuple[int | None, int]]:
    """Return (query, evidence) -> rank and place; empty for a retriever without attributions."""
    if not result.evaluation.entries_of("attributions") or retriever not in result.attributions:
        return {}
    rows = _of_queries(result.attributions[retriever], query_ids).to_pylist()
    return {
        (row["query_id"], row["evidence_id"]): (row["rank"], PLACES.index(row["lost_at"]))
        for row in rows
    }


@dataclass(frozen=True)
class QueryAnswer:
    """The answer of one answerer to one query.

    Attributes:
        text: empty: it refused; None: it failed.
        error: why it failed.
        em: of the answer; None where it is not defined.
        f1: as ``em``.
        outcome: its class in the waterfall; None where there is none.
        context: the units of the context, in their order; None: not known.
    """

    text: str | None
    error: str | None
    em: float | None
    f1: float | None
    outcome: str | None
    context: list[Unit] | None


def gold_answers(result: EvaluationResult, query_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return query -> the answers that are right."""
    facts = _of_queries(result.table(QUERY_FACTS_KEY), query_ids).to_pylist()
    return {row["query_id"]: row["answers"] for row in facts}


def answers_to(
    result: EvaluationResult, query_ids: Sequence[str]
) -> dict[str, dict[str, QueryAnswer]]:
    """Return answerer (``name@k``) -> query -> its answer, in the order of the experiment."""
    answers_of = {}
    for entry in result.evaluation.entries_of("answers"):
        answerer = entry.partition["answerer"]
        metrics, outcomes = (
            {row["query_id"]: row for row in _rows(result, asset, answerer, query_ids) or ()}
            for asset in ("answer_metrics", "answer_waterfall")
        )
        contexts = _contexts(result, answerer, query_ids)
        answers_of[answerer] = {
            query: QueryAnswer(
                row["answer"],
                row["error"],
                metrics.get(query, {}).get("answer_em"),
                metrics.get(query, {}).get("answer_f1"),
                outcomes.get(query, {}).get("outcome"),
                None if contexts is None else contexts.get(query, []),
            )
            for row in _of_queries(result.table(entry.key), query_ids).to_pylist()
            for query in [row["query_id"]]
        }
    return answers_of


def _contexts(
    result: EvaluationResult, answerer: str, query_ids: Sequence[str]
) -> dict[str, list[Unit]] | None:
    rows = _rows(result, "answer_contexts", answerer, query_ids)
    contexts: dict[str, list[Unit]] = {}
    for row in sorted(rows or (), key=lambda row: int(row["position"])):
        unit = Unit(row["document_id"], row["start"], row["end"])
        contexts.setdefault(row["query_id"], []).append(unit)
    return None if rows is None else contexts


def _rows(
    result: EvaluationResult, asset: str, answerer: str, query_ids: Sequence[str]
) -> list[Row] | None:
    """Return the rows of a table of an answerer; None: the evaluation does not have it."""
    key = ArtifactKey.of(asset, answerer=answerer)
    if key not in {entry.key for entry in result.evaluation.entries_of(asset)}:
        return None
    rows: list[Row] = _of_queries(result.table(key), query_ids).to_pylist()
    return rows


def _of_queries(table: pa.Table, query_ids: Sequence[str]) -> pa.Table:
    return table.filter(pc.is_in(table["query_id"], pa.array(query_ids, pa.string())))
