"""What is returned for a chunk, and how many tokens that is.

A retriever searches chunks and returns the parent of a chunk that has one, else the chunk. What is
returned is text of the document, ``text[start:end]``; titles and headings, which are indexed with
it, are not counted.

With ``expand`` the units beside a hit are returned with it, as one span, from the first character
of its window to the last: chunks that overlap repeat nothing, and what lies between them is part of
it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.units import item_ids
from rag_assets.schemas import CONTEXTS, RETRIEVER_CONTEXTS

CountTokens = Callable[[Sequence[str]], list[int]]
"""The number of tokens of each text."""


Span = tuple[str, int, int]
"""A document and the characters ``[start, end)`` of its text."""

_DIGEST_BYTES = 16


def contexts(chunks: pa.Table, documents: Mapping[str, str], count: CountTokens) -> pa.Table:
    """Return what is returned for every chunk.

    Args:
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.
        documents: the texts of the documents by id; may be empty where no chunk has a parent.
        count: counts tokens; each distinct span is counted once.

    Returns:
        Table of :data:`rag_assets.schemas.CONTEXTS`, in the order of the chunks.
    """
    starts = pc.coalesce(chunks["parent_start"], chunks["start"])
    ends = pc.coalesce(chunks["parent_end"], chunks["end"])
    spans: list[Span] = list(_spans(chunks["document_id"], starts, ends))
    has_parent = pc.is_valid(chunks["parent_chunk_id"]).to_pylist()
    texts: dict[Span, str] = {}
    for span, parent, text in zip(spans, has_parent, chunks["text"].to_pylist(), strict=True):
        if span not in texts:
            texts[span] = text_of(documents, span) if parent else text
    tokens = dict(zip(texts, count(list(texts.values())), strict=True))
    digests = {span: text_digest(text) for span, text in texts.items()}
    columns = {
        "chunk_id": chunks["chunk_id"],
        "unit_id": item_ids(chunks, "evidence"),
        "document_id": chunks["document_id"],
        "start": starts,
        "end": ends,
        "n_tokens": pa.array([tokens[span] for span in spans], pa.int64()),
        "text_digest": pa.array([digests[span] for span in spans], pa.string()),
    }
    return CONTEXTS.check(pa.table(columns, schema=CONTEXTS.arrow()).combine_chunks())


def of_retriever(tables: Sequence[pa.Table], judge: str) -> pa.Table:
    """Return the texts that a retriever can return, by what stands for them in its runs.

    Args:
        tables: :data:`rag_assets.schemas.CONTEXTS` of all chunkings that its runs can hold.
        judge: the unit that is judged; see :func:`context_column`.

    Returns:
        Table of :data:`rag_assets.schemas.RETRIEVER_CONTEXTS`, sorted by id. Where documents are
        judged and a fusion's chunkings return different texts for the same chunk, it is the
        longest: a run does not say which of them it was.
    """
    id_column = "chunk_id" if context_column(judge) == "chunk_id" else "unit_id"
    table = pa.concat_tables(tables)
    others = list(RETRIEVER_CONTEXTS.arrow().names[1:])
    table = table.select([id_column, *others]).rename_columns(["context_id", *others])
    longest = [("context_id", "ascending"), ("n_tokens", "descending"), ("start", "ascending")]
    table = table.sort_by(longest).combine_chunks()
    ids = table["context_id"]
    if not len(ids):
        return RETRIEVER_CONTEXTS.empty()
    is_first = pc.not_equal(ids[1:].combine_chunks(), ids[:-1].combine_chunks())
    keep = pa.concat_arrays([pa.array([True]), is_first])
    return RETRIEVER_CONTEXTS.check(table.filter(keep).combine_chunks())


def context_column(judge: str) -> str:
    """Return the column of a run that says which text was returned.

    A unit is one text, but a document that is judged as a whole is returned as its best chunk.
    """
    return "chunk_id" if judge == "document" else "item_id"


def text_of(documents: Mapping[str, str], span: Span) -> str:
    """Return the text of a span."""
    document_id, start, end = span
    return documents[document_id][start:end]


def _spans(ids: pa.ChunkedArray, starts: pa.ChunkedArray, ends: pa.ChunkedArray) -> Iterable[Span]:
    return zip(ids.to_pylist(), starts.to_pylist(), ends.to_pylist(), strict=True)


def text_digest(text: str) -> str:
    """Return what stands for a text in a table of contexts."""
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * _DIGEST_BYTES]


def with_neighbours(units: pa.Table, neighbours: int) -> pa.Table:
    """Return a table of spans with each span grown over its neighbours.

    The units of a document are its different spans, by start, then end; those with equal spans are
    one. At the ends of a document a window holds fewer.

    Args:
        units: columns ``document_id``, ``start`` and ``end``, among others; of one chunking.
        neighbours: how many units on either side; 0 changes nothing.
    """
    if not units.num_rows:
        return units
    names = units.column("document_id").combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    starts, ends = (units.column(name).to_numpy() for name in ("start", "end"))
    spans, rows = np.unique(np.stack([codes, starts, ends]), axis=1, return_inverse=True)
    first, last = spans[1].copy(), spans[2].copy()
    for step in range(1, min(neighbours, spans.shape[1] - 1) + 1):
        beside = spans[0, step:] == spans[0, :-step]
        first[step:] = np.where(beside, np.minimum(first[step:], spans[1, :-step]), first[step:])
        last[step:] = np.where(beside, np.maximum(last[step:], spans[2, :-step]), last[step:])
        first[:-step] = np.where(beside, np.minimum(first[:-step], spans[1, step:]), first[:-step])
        last[:-step] = np.where(beside, np.maximum(last[:-step], spans[2, step:]), last[:-step])
    rows = rows.reshape(-1)
    for name, values in (("start", first), ("end", last)):
        place = units.schema.get_field_index(name)
        column = pa.array(values[rows], units.schema.field(name).type)
        units = units.set_column(place, units.schema.field(name), column)
    return units


def expanded_contexts(
    contexts: pa.Table, neighbours: int, documents: Mapping[str, str], count: CountTokens
) -> pa.Table:
    """Return what is returned for every chunk together with its neighbours.

    Args:
        contexts: table of :data:`rag_assets.schemas.CONTEXTS`, of one chunking.
        neighbours: how many units on either side.
        documents: the texts of the documents by id.
        count: counts tokens; each distinct span is counted once.

    Returns:
        Table of :data:`rag_assets.schemas.CONTEXTS`, in the same order.
    """
    table = with_neighbours(contexts, neighbours)
    columns = (table[name].to_pylist() for name in ("document_id", "start", "end"))
    spans = list(zip(*columns, strict=True))
    texts = {span: text_of(documents, span) for span in dict.fromkeys(spans)}
    tokens = dict(zip(texts, count(list(texts.values())), strict=True))
    digests = {span: text_digest(text) for span, text in texts.items()}
    for name, values in (("n_tokens", tokens), ("text_digest", digests)):
        field = CONTEXTS.arrow().field(name)
        place = table.schema.get_field_index(name)
        table = table.set_column(place, field, pa.array([values[s] for s in spans], field.type))
    return CONTEXTS.check(table.combine_chunks())
