"""What a chunking strategy returns, and how it becomes the chunks table: the same for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from rag_assets.schemas import CHUNKS

HEADING_SEPARATOR = " > "
"""Stands between the headings of a path."""

DOCUMENTS_AT_ONCE = 1_000
"""Documents that are cut together: enough to fill the batches of a model."""


Span = tuple[int, int]
"""``[start, end)`` in characters (code points) of a text."""


class Piece(NamedTuple):
    """One chunk to be: a slice of a text, and what is known about its place.

    Attributes:
        start: first character.
        end: character after the last one.
        headings: the headings above the slice, outermost first; empty where there is none, and
            where the strategy does not look for any.
        parent: the span that is returned in place of this one; None returns the piece itself.
    """

    start: int
    end: int
    headings: tuple[str, ...] = ()
    parent: Span | None = None


Cutter = Callable[[Sequence[str]], Iterable[Sequence[Piece]]]
"""Cuts texts: gives for each of them, in the same order, its pieces; none for a blank text.

Every character that is not white space lies in a piece; no two pieces of a text have one span.
"""


def trimmed(text: str, start: int, end: int) -> Span:
    """Return the span without the white space at its ends; of length 0 when there is no more."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())


def cut_documents(
    documents: pa.Table, cut: Cutter, *, whole: bool = False, whole_parents: bool = False
) -> pa.Table:
    """Return the chunks of all documents, as ``CHUNKS``.

    A document without pieces gets one empty chunk, so that its title can still be found.

    Args:
        documents: ``DOCUMENTS``.
        cut: the strategy.
        whole: True if chunks are whole documents and take their id; otherwise the id is
            ``document_id#start-end``, which no two spans of a chunking share.
        whole_parents: the same for the chunks' parents.
    """
    rows: list[tuple[object, ...]] = []
    names = ("document_id", "title", "text")
    for batch in documents.to_batches(max_chunksize=DOCUMENTS_AT_ONCE):
        ids, titles, texts = (batch.column(name).to_pylist() for name in names)
        for document_id, title, text, pieces in zip(ids, titles, texts, cut(texts), strict=True):
            for piece in pieces or [Piece(0, 0)]:
                span, parent = (piece.start, piece.end), piece.parent
                outer = (None, None) if parent is None else parent
                rows.append(
                    (
                        _id(document_id, span, whole),
                        document_id,
                        *span,
                        title,
                        text[piece.start : piece.end],
                        HEADING_SEPARATOR.join(piece.headings),
                        None if parent is None else _id(document_id, parent, whole_parents),
                        *outer,
                    )
                )
    schema = CHUNKS.arrow()
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)
    ]
    return CHUNKS.check(pa.table(arrays, schema=schema))


def _id(document_id: str, span: Span, whole: bool) -> str:
    return document_id if whole else f"{document_id}#{span[0]}-{span[1]}"


def indexed_texts(chunks: pa.Table, *, headings: bool = False) -> list[str]:
    """Return what is indexed for each chunk: title, heading path, text, a line each.

    Args:
        chunks: ``CHUNKS``.
        headings: True if the heading path takes part; a first heading that only repeats the title
            does not.
    """
    names = ("title", "heading_path", "text")
    rows = zip(*(chunks.column(name).to_pylist() for name in names), strict=True)
    return [
        "\n".join([*filter(None, (title, _without_title(path, title) if headings else "")), text])
        for title, path, text in rows
    ]


def _without_title(path: str, title: str) -> str:
    if path == title:
        return ""
    return path.removeprefix(title + HEADING_SEPARATOR) if title else path
