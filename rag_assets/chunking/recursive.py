"""Strategy ``recursive``: cut at the largest unit of text that fits.

The cutting is done by the library semantic-text-splitter: it merges paragraphs, else sentences,
else words, up to the capacity, and repeats at most ``overlap`` of the chunk before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_assets.chunking.pieces import Cutter, Piece
from rag_assets.chunking.size import Size


def cutter(size: Size) -> Cutter:
    """Return what cuts texts into chunks of at most ``size``; without outer white space.

    Raises:
        ModelUnavailable: when texts are cut, and the tokenizer cannot be had.
    """

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        for found in size.text_splitter().chunk_all_indices(texts):
            yield [Piece(start, start + len(part)) for start, part in found]

    return cut
