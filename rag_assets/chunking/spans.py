"""From character spans to the chunks table, the same for every strategy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from rag_assets.schemas import CHUNKS

Span = tuple[int, int]


def chunks_table(
    documents: pa.Table, spans: Iterable[Sequence[Span]], *, whole: bool = False
) -> pa.Table:
    """Build the chunks of all documents.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        spans: for each document, in the same order, its ``[start, end)`` spans.
        whole: chunks are whole documents and take their id; otherwise the id is
            ``document_id#start-end``, which no two spans of a chunking share.

    Returns:
        Table of :data:`rag_assets.schemas.CHUNKS`; a document without spans gets one empty chunk,
        so that its title can still be found.
    """
    columns: dict[str, list[object]] = {name: [] for name in CHUNKS.arrow().names}
    rows = zip(
        documents.column("document_id").to_pylist(),
        documents.column("title").to_pylist(),
        documents.column("text").to_pylist(),
        spans,
        strict=True,
    )
    for document_id, title, text, document_spans in rows:
        for start, end in document_spans or [(0, 0)]:
            chunk_id = document_id if whole else f"{document_id}#{start}-{end}"
            values = (chunk_id, document_id, start, end, title, text[start:end])
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
    return CHUNKS.check(pa.table(columns, schema=CHUNKS.arrow()))


def indexed_texts(chunks: pa.Table) -> list[str]:
    """Return what is indexed for each chunk: title, newline, text (no newline without a title)."""
    titles = chunks.column("title").to_pylist()
    texts = chunks.column("text").to_pylist()
    return [f"{a}\n{b}" if a else b for a, b in zip(titles, texts, strict=True)]
