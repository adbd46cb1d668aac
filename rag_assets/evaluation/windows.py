"""Text that is returned around a hit: the units beside it in its document.

What is returned for a unit is one span, from the first character of its window to the last: chunks
that overlap repeat nothing, and what lies between them is part of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from rag_assets.evaluation.contexts import CountTokens, text_digest, text_of
from rag_assets.schemas import CONTEXTS


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
