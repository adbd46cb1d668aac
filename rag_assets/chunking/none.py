"""Strategy ``none``: every document is one chunk, and keeps its id."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.chunking.spans import chunks_table


def cut(documents: pa.Table) -> pa.Table:
    """Return one chunk a document."""
    lengths = [len(text) for text in documents.column("text").to_pylist()]
    return chunks_table(documents, ([(0, length)] for length in lengths), whole=True)
