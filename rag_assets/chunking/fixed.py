"""Strategy ``fixed``: windows of so many characters or tokens, wherever they begin and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rag_assets.chunking.chunker import EmbedBy
from rag_assets.chunking.pieces import Cutter, Piece
from rag_assets.chunking.size import Size, SizedChunking
from rag_assets.models.model_names import load_tokenizer


class FixedChunking(SizedChunking):
    """Windows of exactly so many tokens or characters; the last one may be shorter."""

    strategy: Literal["fixed"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts windows."""
        return cutter(self.size)


def cutter(size: Size) -> Cutter:
    """Return what cuts texts into windows; each begins ``capacity - overlap`` after the last.

    The last window may be shorter, and a blank one is left out. Tokens are those of the whole
    text: a window that begins inside a word may count a few more when it is tokenized alone. What
    the tokenizer passes over belongs to the token before.

    Raises:
        ModelUnavailable: when texts are cut, and the tokenizer cannot be had.
    """

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        for text, edges in zip(texts, _edges(texts, size.tokenizer), strict=True):
            yield _windows(text, edges, size)

    return cut


def _edges(texts: Sequence[str], tokenizer: str | None) -> Iterator[Sequence[int]]:
    """Give for each text where its units begin, and where the last one ends.

    The tokens of one character, such as the bytes of an emoji, all begin where it begins.
    """
    if tokenizer is None:
        yield from (range(len(text) + 1) for text in texts)
        return
    encode = load_tokenizer(tokenizer).encode_batch
    encodings = encode(list(texts), add_special_tokens=False)
    for text, encoding in zip(texts, encodings, strict=True):
        yield [0, *(start for start, _ in encoding.offsets[1:]), len(text)]


def _windows(text: str, edges: Sequence[int], size: Size) -> list[Piece]:
    pieces, last = [], len(edges) - 1
    for first in range(0, last, size.capacity - size.overlap):
        end = min(first + size.capacity, last)
        if text[edges[first] : edges[end]].strip():
            pieces.append(Piece(edges[first], edges[end]))
        if end == last:
            break
    return pieces
