"""From what a search returned to units that can be judged: an id is looked up, a text located.

A hit that names what does not exist is no wrong answer but a misunderstanding, so its query fails
with the reason. A text that was not located stays in the ranking: it can be relevant as a document
only, where its document is known, and counts as not relevant else.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.units import PARENT_ID, CountTokens, text_digest
from rag_assets.retrieval.external.base import Hit
from rag_assets.retrieval.external.location import (
    AMBIGUOUS,
    EXACT,
    MISSING,
    NORMALISED,
    Place,
    locate,
)
from rag_assets.schemas import CHUNKS, CONTEXTS, EXTERNAL_HITS, RUNS

ID, SPAN = "id", "span"
"""How a hit that is no text was located."""

NOT_LOCATED = "not-located"
"""Stands in the id of a text that was not located."""

_HIT = ("id", "text", "document_id", "start", "end", "score", "source")


class _Unit(NamedTuple):
    """What a hit means."""

    chunk_id: str
    unit_id: str
    document_id: str
    start: int
    end: int
    located: str
    text: str | None = None


class Located(NamedTuple):
    """Hits as units.

    Attributes:
        table: table of :data:`rag_assets.schemas.EXTERNAL_HITS`, without the failed queries.
        failures: query id -> why its hits are no ranking.
        counts: way -> how many hits were located so.
    """

    table: pa.Table
    failures: Mapping[str, str]
    counts: Mapping[str, int]


def located(
    rankings: pa.Table, documents: pa.Table, chunks: pa.Table | None, judge: str
) -> Located:
    """Locate every hit.

    Args:
        rankings: table of :data:`rag_assets.schemas.EXTERNAL_RANKINGS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        chunks: table of :data:`rag_assets.schemas.CHUNKS`, of which ids are; None: ids are those
            of documents.
        judge: ``document``, ``evidence``, or ``chunk``: the documents are given chunks, so that
            of a hit only its document counts.
    """
    texts = _texts(documents)
    known = _units_by_id(chunks, texts)
    columns = [rankings.column(name).to_pylist() for name in _HIT]
    hits = [Hit(*values) for values in zip(*columns, strict=True)]
    quoted = [hit for hit in hits if hit.text is not None]
    titles = dict(zip(texts, documents.column("title").to_pylist(), strict=True))
    places = dict(zip(quoted, locate(quoted, texts, titles), strict=True))
    rows: list[dict[str, object]] = []
    failures: dict[str, str] = {}
    numbered = zip(rankings["query_id"].to_pylist(), hits, strict=True)
    for query_id, group in groupby(numbered, key=lambda pair: pair[0]):
        try:
            own = [(hit, _unit(hit, known, texts, places)) for _, hit in group]
            if judge == "chunk":
                own = [(hit, _given_chunk(unit, known)) for hit, unit in own]
        except _Unknown as error:
            failures[query_id] = str(error)
            continue
        for rank, (hit, unit) in enumerate(own, 1):
            found = {"query_id": query_id, "rank": rank, "score": hit.score, **unit._asdict()}
            rows.append(found)
    counts = Counter(str(row["located"]) for row in rows)
    return Located(EXTERNAL_HITS.from_rows(rows), failures, dict(counts))


class _Unknown(Exception):
    """A hit names a chunk, a document or characters that do not exist."""


def _texts(documents: pa.Table) -> dict[str, str]:
    ids, texts = (documents.column(name).to_pylist() for name in ("document_id", "text"))
    return dict(zip(ids, texts, strict=True))


def _units_by_id(chunks: pa.Table | None, texts: Mapping[str, str]) -> dict[str, _Unit]:
    """Return id -> unit; an id of a chunk goes before that of a parent, and that of a document."""
    units: dict[str, _Unit] = {}
    if chunks is not None:
        names = ("chunk_id", "document_id", "start", "end", PARENT_ID)
        rows = list(zip(*(chunks.column(name).to_pylist() for name in names), strict=True))
        for chunk, document, start, end, parent in rows:
            units[chunk] = _Unit(chunk, parent or chunk, document, start, end, ID)
        for chunk, document, start, end, parent in rows:
            if parent is not None:
                units.setdefault(parent, _Unit(chunk, parent, document, start, end, ID))
    for document, text in texts.items():
        units.setdefault(document, _Unit(document, document, document, 0, len(text), ID))
    return units


def _unit(
    hit: Hit, known: Mapping[str, _Unit], texts: Mapping[str, str], places: Mapping[Hit, Place]
) -> _Unit:
    if hit.text is not None:
        return _unit_of_text(hit, hit.text, places)
    if hit.id is not None:
        if hit.id not in known:
            raise _Unknown(f"the search returned the id '{hit.id}', which no chunk or document has")
        return known[hit.id]
    document, start, end = hit.document_id or "", hit.start or 0, hit.end or 0
    if document not in texts:
        raise _Unknown(f"the search returned a span of '{document}', which is not a document")
    if not 0 <= start < end <= len(texts[document]):
        raise _Unknown(
            f"the search returned characters {start} to {end} of '{document}', which has "
            f"{len(texts[document])}"
        )
    return _of_span(document, start, end, SPAN)


def _given_chunk(unit: _Unit, known: Mapping[str, _Unit]) -> _Unit:
    whole = known.get(unit.document_id)
    return unit if whole is None else whole._replace(located=unit.located)


def _of_span(document: str, start: int, end: int, how: str) -> _Unit:
    chunk = f"{document}#{start}-{end}"
    return _Unit(chunk, chunk, document, start, end, how)


def _unit_of_text(hit: Hit, text: str, places: Mapping[Hit, Place]) -> _Unit:
    how, document, start, end = places[hit]
    if document is not None and start is not None and end is not None:
        return _of_span(document, start, end, how)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    chunk = f"{document}#{NOT_LOCATED}-{digest}" if document else f"{NOT_LOCATED}#{digest}"
    return _Unit(chunk, chunk, document or chunk, 0, 0, how, text)


def own_units(hits: pa.Table, documents: pa.Table, chunks: pa.Table | None) -> pa.Table:
    """Return the units that are no chunks of a chunking, each once.

    Args:
        hits: table of :data:`rag_assets.schemas.EXTERNAL_HITS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        chunks: table of :data:`rag_assets.schemas.CHUNKS`; None: there is no chunking.

    Returns:
        Table of :data:`rag_assets.schemas.CHUNKS`, sorted by id.
    """
    names = ("chunk_id", "document_id", "start", "end", "text")
    known = set(chunks.column("chunk_id").to_pylist()) if chunks is not None else set()
    texts = _texts(documents)
    ids, titles = (documents.column(name).to_pylist() for name in ("document_id", "title"))
    title_of = dict(zip(ids, titles, strict=True))
    rows = set(zip(*(hits.column(name).to_pylist() for name in names), strict=True))
    return CHUNKS.from_rows(
        [
            {
                **{"chunk_id": chunk, "document_id": document, "start": start, "end": end},
                "title": title_of.get(document, ""),
                "text": texts[document][start:end] if text is None else text,
                "heading_path": "",
            }
            for chunk, document, start, end, text in sorted(rows, key=lambda row: row[0])
            if chunk not in known
        ]
    )


def is_located(units: pa.Table) -> pa.ChunkedArray:
    """Return of each unit of a search's own whether it is a span of a document."""
    is_empty = pc.equal(units.column("text"), "")
    return pc.or_(pc.greater(units.column("end"), 0), is_empty)


def own_contexts(units: pa.Table, count: CountTokens) -> pa.Table:
    """Return what is returned for each unit of a search's own, and its tokens.

    A text that was not located is a document of its own here: see :func:`texts_not_located`.

    Args:
        units: what :func:`own_units` gives.
        count: counts tokens.

    Returns:
        Table of :data:`rag_assets.schemas.CONTEXTS`, in the same order.
    """
    rows, here = units.to_pylist(), is_located(units).to_pylist()
    tokens = count([row["text"] for row in rows]) if rows else []
    return CONTEXTS.from_rows(
        [
            {
                "chunk_id": row["chunk_id"],
                "unit_id": row["chunk_id"],
                "document_id": row["document_id"] if located else row["chunk_id"],
                "start": row["start"],
                "end": row["end"] if located else len(row["text"]),
                "n_tokens": n_tokens,
                "text_digest": text_digest(row["text"]),
            }
            for row, located, n_tokens in zip(rows, here, tokens, strict=True)
        ]
    )


def texts_not_located(units: pa.Table) -> dict[str, str]:
    """Return id -> text of the units that are no span of a document."""
    rest = units.filter(pc.invert(is_located(units)))
    return dict(zip(rest["chunk_id"].to_pylist(), rest["text"].to_pylist(), strict=True))


def unit_run(hits: pa.Table, judge: str) -> pa.Table:
    """Return the ranking of judged units; of several hits on a unit the best one counts.

    The order of the hits is the ranking. Their scores stand beside it where every hit has one and
    none is better than the one above it; else that of rank i is 1 / i.

    Args:
        hits: table of :data:`rag_assets.schemas.EXTERNAL_HITS`.
        judge: ``document``, ``chunk`` or ``evidence``.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
    """
    column = "document_id" if judge == "document" else "unit_id"
    scored = _descending(hits)
    names = ("query_id", "score", column, "chunk_id", "document_id")
    rows = list(zip(*(hits.column(name).to_pylist() for name in names), strict=True))
    found: list[dict[str, object]] = []
    for query_id, own in groupby(rows, key=lambda row: row[0]):
        best: dict[str, tuple[float, str, str]] = {}
        for _, score, item, chunk, document in own:
            best.setdefault(item, (score, chunk, document))
        for rank, (item, (score, chunk, document)) in enumerate(best.items(), 1):
            found.append(
                {
                    "query_id": query_id,
                    "rank": rank,
                    "score": score if scored else 1 / rank,
                    "unit_id": item,
                    "chunk_id": chunk,
                    "document_id": document,
                }
            )
    return RUNS.from_rows(found).sort_by([("query_id", "ascending"), ("rank", "ascending")])


def _descending(hits: pa.Table) -> bool:
    """Return whether all hits have a score, and those of each query fall with the rank."""
    rows = zip(hits["query_id"].to_pylist(), hits["score"].to_pylist(), strict=True)
    last: tuple[str, float] | None = None
    for query_id, score in rows:
        if score is None or (last is not None and last[0] == query_id and score > last[1]):
            return False
        last = (query_id, score)
    return True


def notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for people about the texts that were located, and one for each other way."""
    n_exact, n_alike = counts.get(EXACT, 0), counts.get(NORMALISED, 0)
    n_texts = n_exact + n_alike + counts.get(AMBIGUOUS, 0) + counts.get(MISSING, 0)
    if not n_texts:
        return
    share = (n_exact + n_alike) / n_texts
    alike = f", {n_alike} of them by white space and Unicode made alike" if n_alike else ""
    yield f"{share:.1%} of {n_texts} returned texts were located in the documents{alike}"
    texts: Mapping[str, str] = {
        AMBIGUOUS: "returned texts stand at several places and are judged by document only",
        MISSING: "returned texts stand in no document; their document, where known, is judged",
    }
    for way, text in texts.items():
        if counts.get(way):
            yield f"{counts[way]} {text}"


def same_hits(first: Sequence[Hit], second: Sequence[Hit]) -> bool:
    """Return whether two answers name the same things in the same order, whatever the scores."""
    one, other = ([hit._replace(score=None) for hit in hits] for hits in (first, second))
    return one == other
