"""What retrievers returned for some queries, where the evidence lies, and texts of both.

Texts are excerpts, each once, as long as the page can hold them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from rag_assets.evaluation.attribution import PLACES
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.report.page.embedded_data import escaped_json
from rag_assets.report.page.readable_text import ReadableText
from rag_assets.report.result import EvaluationResult
from rag_assets.sources.stage import QRELS_KEY

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
    """A part of a unit, as it is read.

    Attributes:
        start: the character of the document's text at which the part starts.
        text: without the marks of Markdown.
        gaps: where how many characters were left out; see :class:`.readable_text.Part`.
    """

    start: int
    text: str
    gaps: list[tuple[int, int]]


Documents = Mapping[str, tuple[str, str]]
"""Document -> title and text."""


def read_documents(path: Path, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return title and text of some documents; the others are not kept in memory."""
    document_ids = pa.array(sorted(set(ids)), pa.string())
    columns = ["document_id", "title", "text"]
    table = ds.dataset(path).to_table(columns, filter=ds.field("document_id").isin(document_ids))
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return {document_id: (title, text) for document_id, title, text in rows}


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
    starts = {document_id: sorted(excerpt_of) for document_id, excerpt_of in evidence.items()}
    with_text = [unit for unit in units if unit.document_id in documents and unit.end > unit.start]
    readable = {name: ReadableText.of(documents[name][1]) for name, _, _ in with_text}
    for length in LENGTHS:
        excerpt_of, complete = _fitting(readable, with_text, starts, length, min(room, TEXT_BYTES))
        if complete:
            break
    return excerpt_of, length


def _fitting(
    documents: Mapping[str, ReadableText],
    units: Sequence[Unit],
    starts: Mapping[str, Sequence[int]],
    length: int,
    left: int,
) -> tuple[dict[Unit, Excerpt], bool]:
    """Return the excerpts of that length until the page is full, and whether these are all."""
    fitting: dict[Unit, Excerpt] = {}
    for unit in units:
        excerpt = _excerpt(documents[unit.document_id], unit, starts, length)
        left -= len(escaped_json(excerpt[1:] if excerpt.gaps else excerpt.text).encode())
        if left < 0:
            return fitting, False
        fitting[unit] = excerpt
    return fitting, True


def _excerpt(
    text: ReadableText, unit: Unit, starts: Mapping[str, Sequence[int]], length: int
) -> Excerpt:
    """Return the part of a unit that holds the start of its first evidence, else its beginning."""
    start = unit.start
    if unit.end - unit.start > length:
        of_document = starts.get(unit.document_id, ())
        place = bisect_left(of_document, unit.start)
        if place < len(of_document) and of_document[place] < unit.end:
            before = of_document[place] - length // 4
            start = max(unit.start, min(before, unit.end - length))
    return Excerpt(start, *text.part(start, min(unit.end, start + length)))


@dataclass(frozen=True)
class Hit:
    """One result: its text, and whether it satisfies an evidence of the query."""

    unit: Unit
    relevant: bool


@dataclass(frozen=True)
class Results:
    """Query -> its first results, best first."""

    hits: Mapping[str, list[Hit]]

    def of(self, query_id: str) -> list[Hit]:
        """Return the results of one query; none where nothing was retrieved."""
        return self.hits.get(query_id, [])


def results_of(
    result: EvaluationResult, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
) -> Results:
    """Return the first ``depth`` results of the run at ``top_k``, of some queries."""
    run = result.table(result.run_keys(retriever)[top_k])
    ids = pa.array(query_ids, pa.string())
    run = run.filter(
        pc.and_(pc.less_equal(run["rank"], depth), pc.is_in(run["query_id"], ids))
    ).sort_by([("query_id", "ascending"), ("rank", "ascending")])
    relevant = _relevant(result, retriever, ids)
    units = _units(result, retriever, run)
    hits: dict[str, list[Hit]] = {}
    names = ("query_id", "unit_id", "chunk_id", "document_id")
    for query_id, item, chunk, document in zip(*(run[n].to_pylist() for n in names), strict=True):
        # Where documents are judged, a text is that of their best chunk.
        unit = units.get(item) or units.get(chunk) or Unit(document, 0, 0)
        hits.setdefault(query_id, []).append(Hit(unit, (query_id, item) in relevant))
    return Results(hits)


def _relevant(
    result: EvaluationResult, retriever: str, query_ids: pa.Array
) -> set[tuple[str, str]]:
    table = result.table(relevant_units_key(retriever))
    is_relevant = pc.and_(pc.greater(table["grade"], 0), pc.is_in(table["query_id"], query_ids))
    relevant = table.filter(is_relevant)
    return set(zip(relevant["query_id"].to_pylist(), relevant["unit_id"].to_pylist(), strict=True))


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
        places: of each retriever the number in :data:`rag_assets.evaluation.attribution.PLACES` of
            where it was found or lost; -1 where that is not known.
    """

    spans: list[Span]
    ranks: list[int | None]
    places: list[int]


def evidence_of(
    result: EvaluationResult, names: Sequence[str], query_ids: Sequence[str]
) -> dict[str, list[Evidence]]:
    """Return query -> its relevant evidences, ranks in the order of ``names``."""
    ids = pa.array(query_ids, pa.string())
    places = [_places(result, name, ids) for name in names]
    evidences: dict[str, list[Evidence]] = {}
    for (query_id, evidence_id), spans in _spans(result, ids).items():
        ranked = [one.get((query_id, evidence_id), (None, UNKNOWN)) for one in places]
        evidence = Evidence(spans, [rank for rank, _ in ranked], [place for _, place in ranked])
        evidences.setdefault(query_id, []).append(evidence)
    return evidences


def _spans(result: EvaluationResult, query_ids: pa.Array) -> dict[tuple[str, str], list[Span]]:
    qrels = _of_queries(result.table(QRELS_KEY), query_ids)
    qrels = qrels.filter(pc.greater(qrels["grade"], 0))
    columns = ("query_id", "evidence_id", "document_id", "start", "end")
    spans: dict[tuple[str, str], list[Span]] = {}
    for query_id, evidence_id, *span in zip(*(qrels[c].to_pylist() for c in columns), strict=True):
        spans.setdefault((query_id, evidence_id), []).append((span[0], span[1], span[2]))
    return spans


def _places(
    result: EvaluationResult, retriever: str, query_ids: pa.Array
) -> Mapping[tuple[str, str], tuple[int | None, int]]:
    """Return (query, evidence) -> rank and place; empty for a retriever without attributions."""
    if not result.evaluation.entries_of("attributions") or retriever not in result.attributions:
        return {}
    table = _of_queries(result.attributions[retriever], query_ids)
    columns = ("query_id", "evidence_id", "rank", "lost_at")
    rows = zip(*(table[column].to_pylist() for column in columns), strict=True)
    return {(q, evidence): (rank, PLACES.index(place)) for q, evidence, rank, place in rows}


def _of_queries(table: pa.Table, query_ids: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table["query_id"], query_ids))
