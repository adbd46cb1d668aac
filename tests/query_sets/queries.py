"""Tables of queries, and rows of variants."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.schemas import QUERIES, QUERY_VARIANTS


def queries_of(texts: dict[str, str]) -> pa.Table:
    rows: list[dict[str, object]] = [
        {"query_id": query_id, "text": text, "tags": [], "metadata": "{}"}
        for query_id, text in texts.items()
    ]
    return QUERIES.from_rows(rows)


def texts_of(variants: pa.Table) -> dict[str, list[str]]:
    """Return the texts of each query in the order of their numbers, which must have no gap."""
    QUERY_VARIANTS.check(variants)
    found: dict[str, list[str]] = {}
    for row in variants.to_pylist():
        texts = found.setdefault(row["query_id"], [])
        assert row["variant"] == len(texts)
        texts.append(row["text"])
    return found
