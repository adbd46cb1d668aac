"""The variants of queries: their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from rag_assets.schemas import QUERY_VARIANTS, column_values


def variant_table(queries: pa.Table, texts: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return the original of every query as variant 0, then its texts as 1, 2, 3...

    A text is stripped; one that is blank, or that equals the original or an earlier variant but
    for case and white space, is left out: it would only count the same ranking twice.

    Args:
        queries: ``QUERIES``.
        texts: query id -> its texts besides the original; a query without has variant 0 only.
    """
    rows: list[dict[str, object]] = []
    for query_id, original in column_values(queries, "query_id", "text"):
        others = {folded(original): ""}
        for text in texts.get(query_id, ()):
            others.setdefault(folded(text), text.strip())
        every = enumerate([original, *filter(None, others.values())])
        rows += [{"query_id": query_id, "variant": n, "text": text} for n, text in every]
    return QUERY_VARIANTS.from_rows(rows)


def folded(text: str) -> str:
    """Return ``text`` as it is compared: without case, white space as single blanks."""
    return " ".join(text.split()).casefold()


Method = Literal["rrf", "max", "sum", "weighted"]
"""How the rankings of variants become one: :func:`~.retrieval.fusion.methods.fuse_variants`."""
