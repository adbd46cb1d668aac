"""From what a search returned to units that can be judged: an id is looked up, a text located.

A hit that names what does not exist is no wrong answer but a misunderstanding, so its query fails
with the reason. A text that was not located stays in the ranking: it can be relevant as a document
only, where its document is known, and counts as not relevant else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.called.hits import Hit, Rejected
from rag_assets.evaluation.units import PARENT_ID
from rag_assets.retrieval.external.locate import (
    AMBIGUOUS,
    EXACT,
    MISSING,
    NORMALISED,
    Place,
    locate,
)
from rag_assets.schemas import CHUNKS, EXTERNAL_HITS, RUNS, column_values
from rag_assets.store.artifacts import Artifact

ID, SPAN = "id", "span"
"""How a hit that is no text was located."""

NOT_LOCATED = "not-located"
"""Stands in the id of a text that was not located."""


class _Unit(NamedTuple):
    """What a hit means; ``text`` is set where no chunking has the unit."""

    chunk_id: str
    unit_id: str
    document_id: str
    start: int
    end: int
    located: str
    text: str | None = None


def located(
    rankings: pa.Table,
    documents: pa.Table,
    chunks: pa.Table | None = None,
    *,
    judge: str,
    has_own: bool = True,
) -> tuple[pa.Table, dict[str, str]]:
    """Locate every hit.

    Args:
        rankings: ``EXTERNAL_RANKINGS``.
        documents: ``DOCUMENTS``.
        chunks: ``CHUNKS``, of which ids are; None: ids are those of documents.
        judge: ``document``, ``evidence``, or ``chunk``: the documents are given chunks, so that
            of a hit only its document counts.
        has_own: whether a hit may be what is no chunk; else an id of a document, which only counts
            where documents are judged, means its first chunk.

    Returns:
        ``EXTERNAL_HITS`` without the failed queries, and query id -> why its hits are no ranking.
    """
    texts = dict(column_values(documents, "document_id", "text"))
    titles = dict(column_values(documents, "document_id", "title"))
    by_id = _units_by_id(chunks, texts if has_own else None, judge)
    cut = set(chunks.column("chunk_id").to_pylist()) if chunks is not None else set()
    hits = [Hit(*values) for values in column_values(rankings, *Hit._fields)]
    quoted = [hit for hit in hits if hit.text is not None]
    places = dict(zip(quoted, locate(quoted, texts, titles), strict=True))
    rows: list[dict[str, object]] = []
    failures: dict[str, str] = {}
    numbered = zip(rankings["query_id"].to_pylist(), hits, strict=True)
    for query_id, group in groupby(numbered, key=lambda pair: pair[0]):
        try:
            units = [(hit, _unit(hit, by_id, texts, places)) for _, hit in group]
        except Rejected as error:
            failures[query_id] = str(error)
            continue
        for rank, (hit, unit) in enumerate(units, 1):
            if judge == "chunk" and unit.document_id in by_id:
                unit = by_id[unit.document_id]._replace(located=unit.located)
            row = {"query_id": query_id, "rank": rank, "score": hit.score, **unit._asdict()}
            if unit.chunk_id not in cut:
                row["title"] = titles.get(unit.document_id, "")
                if unit.text is None:
                    row["text"] = texts[unit.document_id][unit.start : unit.end]
            rows.append(row)
    return EXTERNAL_HITS.from_rows(rows), failures


def _units_by_id(
    chunks: pa.Table | None, texts: Mapping[str, str] | None, judge: str
) -> dict[str, _Unit]:
    """Return id -> unit; an id of a chunk goes before that of a parent, and that of a document."""
    columns = ("chunk_id", "document_id", "start", "end", PARENT_ID)
    rows = [] if chunks is None else list(column_values(chunks, *columns))
    if texts is None:
        rows.sort(key=lambda row: row[1:3])
    units: dict[str, _Unit] = {}
    for at in (0, 4, 1) if texts is None and judge == "document" else (0, 4):
        for row in rows:
            chunk, document, start, end, parent = row
            if row[at] is not None:
                unit = _Unit(chunk, parent or chunk, document, start, end, ID)
                units.setdefault(row[at], unit)
    for document, text in (texts or {}).items():
        units.setdefault(document, _Unit(document, document, document, 0, len(text), ID))
    return units


def _unit(
    hit: Hit, by_id: Mapping[str, _Unit], texts: Mapping[str, str], places: Mapping[Hit, Place]
) -> _Unit:
    if hit.id is not None:
        if hit.id not in by_id:
            unit = "chunk or parent" if hit.id in texts else "chunk or document"
            raise Rejected(f"the search returned the id '{hit.id}', which no {unit} has")
        return by_id[hit.id]
    place = places[hit] if hit.text is not None else Place(SPAN, *hit[2:5])
    how, document, start, end = place
    if document is not None and start is not None and end is not None:
        if document not in texts:
            raise Rejected(f"the search returned a span of '{document}', which is not a document")
        length = len(texts[document])
        if not 0 <= start < end <= length:
            span = f"characters {start} to {end} of '{document}'"
            raise Rejected(f"the search returned {span}, which has {length}")
        chunk = f"{document}#{start}-{end}"
        return _Unit(chunk, chunk, document, start, end, how)
    digest = hashlib.sha256(str(hit.text).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    chunk = f"{document}#{NOT_LOCATED}-{digest}" if document else f"{NOT_LOCATED}#{digest}"
    return _Unit(chunk, chunk, document or chunk, 0, 0, how, hit.text)


def own_units(hits: pa.Table) -> pa.Table:
    """Return the units that are no chunks of a chunking, each once, as ``CHUNKS`` sorted by id."""
    names = ("chunk_id", "document_id", "start", "end", "title", "text")
    rows = set(column_values(hits.filter(pc.is_valid(hits.column("text"))), *names))
    return CHUNKS.from_rows(
        [{**dict(zip(names, row, strict=True)), "heading_path": ""} for row in sorted(rows)]
    )


def chunks_of(artifact: Artifact, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the chunks of a chunking, or of a search's own among its hits, as ``CHUNKS``."""
    if artifact.manifest.asset == EXTERNAL_HITS.name:
        return own_units(artifact.table()).select(columns or CHUNKS.arrow().names)
    return artifact.table(columns)


def _is_located(units: pa.Table) -> pa.ChunkedArray:
    """Return of each unit of a search's own whether it is a span of a document."""
    return pc.or_(pc.greater(units.column("end"), 0), pc.equal(units.column("text"), ""))


def returned_spans(units: pa.Table) -> pa.Table:
    """Return units of a search's own, in which a text that was not located is all of a document.

    That document is named by the unit: see :func:`texts_not_located`.
    """
    is_located = _is_located(units)
    names = pc.if_else(is_located, units.column("document_id"), units.column("chunk_id"))
    lengths = pc.cast(pc.utf8_length(units.column("text")), units.column("end").type)
    ends = pc.if_else(is_located, units.column("end"), lengths)
    columns = dict(zip(units.column_names, units.columns, strict=True))
    return pa.table({**columns, "document_id": names, "end": ends})


def texts_not_located(units: pa.Table) -> dict[str, str]:
    """Return id -> text of the units that are no span of a document."""
    return dict(column_values(units.filter(pc.invert(_is_located(units))), "chunk_id", "text"))


def unit_run(hits: pa.Table, judge: str) -> pa.Table:
    """Return the ranking of judged units as ``RUNS``; of several hits on a unit the best counts.

    The order of the hits is the ranking. Their scores stand beside it where every hit has one and
    none is better than the one above it; else that of rank i is 1 / i.
    """
    column = "document_id" if judge == "document" else "unit_id"
    names = ("unit_id", "score", "chunk_id", "document_id")
    rows = list(column_values(hits, "query_id", column, *names[1:]))
    is_scored = all(row[2] is not None for row in rows) and all(
        above[0] != row[0] or row[2] <= above[2] for above, row in pairwise(rows)
    )
    ranked: list[dict[str, object]] = []
    for query_id, group in groupby(rows, key=lambda row: row[0]):
        best: dict[str, tuple[Any, ...]] = {}
        for row in group:
            best.setdefault(row[1], row[1:])
        for rank, values in enumerate(best.values(), 1):
            score = values[1] if is_scored else 1 / rank
            fields = dict(zip(names, values, strict=True)) | {"score": score}
            ranked.append({"query_id": query_id, "rank": rank, **fields})
    return RUNS.from_rows(ranked).sort_by([("query_id", "ascending"), ("rank", "ascending")])


def notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for people about the texts that were located, and one for each other way."""
    n_exact, n_alike = counts.get(EXACT, 0), counts.get(NORMALISED, 0)
    n_texts = n_exact + n_alike + counts.get(AMBIGUOUS, 0) + counts.get(MISSING, 0)
    if n_texts:
        share = f"{(n_exact + n_alike) / n_texts:.1%} of {n_texts} returned texts were located"
        alike = f", {n_alike} of them after normalising white space and Unicode" if n_alike else ""
        yield f"{share} in the documents{alike}"
    for how, problem in _NOT_LOCATED.items():
        if counts.get(how):
            yield f"returned texts that {problem}: {counts[how]}"


_NOT_LOCATED = {
    AMBIGUOUS: "occur at several places, judged by document only",
    MISSING: "are in no document, judged by their document where it is known",
}
