"""From texts for each query to the table of variants: the original first, no text twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from rag_assets.schemas import QUERY_VARIANTS


def variant_table(queries: pa.Table, texts: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return the original of every query as variant 0, then its texts as 1, 2, 3...

    A text is stripped; one that is blank, or that equals the original or an earlier variant but
    for case and white space, is left out: it would only count the same ranking twice.

    Args:
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        texts: query id -> its texts besides the original; a query without has variant 0 only.
    """
    ids: list[str] = []
    numbers: list[int] = []
    variant_texts: list[str] = []
    columns = (queries.column(name).to_pylist() for name in ("query_id", "text"))
    for query_id, original in zip(*columns, strict=True):
        variants = [original, *_distinct(original, texts.get(query_id, ()))]
        ids += [query_id] * len(variants)
        numbers += range(len(variants))
        variant_texts += variants
    arrays = [
        pa.array(ids, pa.string()),
        pa.array(numbers, pa.int32()),
        pa.array(variant_texts, pa.string()),
    ]
    return QUERY_VARIANTS.check(pa.table(arrays, schema=QUERY_VARIANTS.arrow()))


def folded(text: str) -> str:
    """Return ``text`` as it is compared: without case, white space as single blanks."""
    return " ".join(text.split()).casefold()


def _distinct(original: str, texts: Sequence[str]) -> list[str]:
    by_folded = {folded(original): ""}
    for text in texts:
        by_folded.setdefault(folded(text), text.strip())
    return [text for text in by_folded.values() if text]


def originals(queries: pa.Table) -> pa.Table:
    """Return the query set ``original``: every query as it stands, as its only variant."""
    zeros = pa.array(np.zeros(queries.num_rows, dtype=np.int32))
    columns = [queries.column("query_id"), zeros, queries.column("text")]
    return QUERY_VARIANTS.check(pa.table(columns, schema=QUERY_VARIANTS.arrow()))
