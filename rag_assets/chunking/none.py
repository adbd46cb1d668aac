"""Strategy ``none``: every document is one chunk, and keeps its id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from rag_assets.chunking.chunker import Chunker, EmbedBy
from rag_assets.chunking.pieces import Cutter, Piece


class NoneChunking(Chunker):
    """Every document is one chunk."""

    whole_documents: ClassVar[bool] = True

    strategy: Literal["none"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what gives whole texts."""
        return cut


def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
    """Give each text as one piece, however long it is."""
    for text in texts:
        yield [Piece(0, len(text))]
