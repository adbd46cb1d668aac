"""Strategy ``markdown``: one chunk a section, with the headings above it.

A section that is too long is cut further by semantic-text-splitter's Markdown splitter, which keeps
tables, lists, fenced code and paragraphs whole where they fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from rag_assets.chunking.headings import sections
from rag_assets.chunking.pieces import Cutter, Piece
from rag_assets.chunking.size import Size, split_pieces, splitter_cutter


def cutter(size: Size, *, max_level: int) -> Cutter:
    """Return what cuts Markdown texts by heading.

    Args:
        size: the largest chunk; the overlap is between the parts of one section only.
        max_level: the deepest heading, 1 to 6, that begins a chunk.

    Raises:
        ModelUnavailable: when texts are cut, and the tokenizer cannot be had.
    """

    @cache  # it takes longer to make than a document takes to cut
    def smaller() -> Cutter:
        return splitter_cutter(size.markdown_splitter())

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        found = [sections(text, max_level) for text in texts]
        return split_pieces(texts, found, smaller())

    return cut
