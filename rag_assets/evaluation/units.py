"""The judged units of chunks, and the texts that are returned for them.

The unit of a chunk is its document (``judge: document``), else its parent, else the chunk itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PARENT_ID = "parent_chunk_id"

Span = tuple[str, int, int]
"""A document and the characters ``[start, end)`` of its text."""

_DIGEST_BYTES = 16


def unit_ids(chunks: pa.Table, judge: str) -> pa.ChunkedArray:
    """Return the id of the unit of each chunk, by the unit that is judged."""
    if judge == "document":
        return chunks.column("document_id")
    if PARENT_ID not in chunks.column_names:
        return chunks.column("chunk_id")
    return pc.coalesce(chunks.column(PARENT_ID), chunks.column("chunk_id"))


def unit_spans(chunks: pa.Table) -> pa.Table:
    """Return the units of all chunks as spans, each once: the parent's where there is one.

    They have the columns ``unit_id``, ``document_id``, ``start`` and ``end``.
    """
    spans = {name: chunks.column(name) for name in ("start", "end")}
    if PARENT_ID in chunks.column_names:
        spans = {
            n: pc.coalesce(chunks.column(f"parent_{n}"), column) for n, column in spans.items()
        }
    ids = unit_ids(chunks, "evidence")
    table = pa.table({"unit_id": ids, "document_id": chunks.column("document_id"), **spans})
    return table.group_by(table.column_names).aggregate([])


def cut(ranking: pa.Table, depth: int) -> pa.Table:
    """Return the first ``depth`` ranks of every query."""
    return ranking.filter(pc.less_equal(ranking.column("rank"), depth)).combine_chunks()


def context_column(judge: str) -> str:
    """Return the column of a run that says which text was returned.

    A unit is one text, but a document that is judged as a whole is returned as its best chunk.
    """
    return "chunk_id" if judge == "document" else "unit_id"


def text_of(documents: Mapping[str, str], span: Span) -> str:
    """Return the text of a span."""
    document_id, start, end = span
    return documents[document_id][start:end]


def text_digest(text: str) -> str:
    """Return what stands for a text in a table of contexts."""
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES].hex()


def with_neighbours(units: pa.Table, neighbours: int) -> pa.Table:
    """Return a table of spans of one chunking with each span grown over its neighbours.

    The units of a document are its different spans, by start, then end; those with equal spans are
    one. At the ends of a document a window holds fewer.
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
