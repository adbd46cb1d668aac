"""From documents to the chunks table, the same for every strategy."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.chunking.pieces import Cutter, Piece, Span
from rag_assets.schemas import CHUNKS

HEADING_SEPARATOR = " > "
"""Stands between the headings of a path."""

DOCUMENTS_AT_ONCE = 1_000
"""Documents that are cut together: enough to fill the batches of a model."""


def cut_documents(
    documents: pa.Table, cut: Cutter, *, whole: bool = False, whole_parents: bool = False
) -> pa.Table:
    """Cut all documents.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        cut: the strategy.
        whole: chunks are whole documents and take their id; otherwise the id is
            ``document_id#start-end``, which no two spans of a chunking share.
        whole_parents: the same for the chunks' parents.

    Returns:
        Table of :data:`rag_assets.schemas.CHUNKS`; a document without pieces gets one
        empty chunk, so that its title can still be found.
    """
    parts = [CHUNKS.empty()]
    for batch in documents.to_batches(max_chunksize=DOCUMENTS_AT_ONCE):
        parts.append(_cut_batch(batch, cut, whole=whole, whole_parents=whole_parents))
    return CHUNKS.check(pa.concat_tables(parts).combine_chunks())


def _cut_batch(
    documents: pa.RecordBatch, cut: Cutter, *, whole: bool, whole_parents: bool
) -> pa.Table:
    ids, titles, texts = (
        documents.column(name).to_pylist() for name in ("document_id", "title", "text")
    )
    columns: dict[str, list[object]] = {name: [] for name in CHUNKS.arrow().names}
    appends = [column.append for column in columns.values()]
    for document_id, title, text, pieces in zip(ids, titles, texts, cut(texts), strict=True):
        for piece in pieces or [Piece(0, 0)]:
            span = (piece.start, piece.end)
            values = (
                _id(document_id, span, whole),
                document_id,
                *span,
                title,
                text[piece.start : piece.end],
                HEADING_SEPARATOR.join(piece.headings),
                *_parent(document_id, piece.parent, whole_parents),
            )
            for append, value in zip(appends, values, strict=True):
                append(value)
    return pa.table(columns, schema=CHUNKS.arrow())


def _id(document_id: str, span: Span, whole: bool) -> str:
    return document_id if whole else f"{document_id}#{span[0]}-{span[1]}"


def _parent(
    document_id: str, span: Span | None, whole: bool
) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if span is None else (_id(document_id, span, whole), *span)


def indexed_texts(chunks: pa.Table, *, headings: bool = False) -> list[str]:
    """Return what is indexed for each chunk: title, heading path, text, a line each.

    Args:
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.
        headings: whether the heading path takes part; a first heading that only repeats the title
            does not.
    """
    titles, paths, texts = (
        chunks.column(name).to_pylist() for name in ("title", "heading_path", "text")
    )
    rows = zip(titles, paths, texts, strict=True)
    if not headings:
        return [_lines(title, "", text) for title, _, text in rows]
    return [_lines(title, _without_title(path, title), text) for title, path, text in rows]


def _lines(title: str, path: str, text: str) -> str:
    below = f"{path}\n{text}" if path else text
    return f"{title}\n{below}" if title else below


def _without_title(path: str, title: str) -> str:
    if path == title:
        return ""
    return path.removeprefix(title + HEADING_SEPARATOR) if title else path
