"""Strategies ``none`` and ``fixed``: a whole document, or windows of a number of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from rag_assets.chunking.chunker import Chunker, Cutter, EmbedBy, Piece, SizedChunking
from rag_assets.models.model_names import load_tokenizer


class NoneChunking(Chunker):
    """Every document is one chunk."""

    whole_documents: ClassVar[bool] = True

    strategy: Literal["none"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        return lambda texts: ([Piece(0, len(text))] for text in texts)


class FixedChunking(SizedChunking):
    """Windows of a fixed number of tokens or characters; the last one may be shorter."""

    strategy: Literal["fixed"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts windows; each begins ``capacity - overlap`` after the last.

        A blank window is left out. Tokens are those of the whole text: a window that begins inside
        a word may count a few more when it is tokenized alone. What the tokenizer passes over
        belongs to the token before.
        """

        def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
            for text, edges in zip(texts, self._edges(texts), strict=True):
                yield self._windows(text, edges)

        return cut

    def _edges(self, texts: Sequence[str]) -> Iterator[Sequence[int]]:
        """Give for each text where its units begin, and where the last one ends.

        The tokens of one character, such as the bytes of an emoji, all begin where it begins.
        """
        if self.max_tokens is None:
            yield from (range(len(text) + 1) for text in texts)
            return
        encode = load_tokenizer(self.tokenizer).encode_batch
        encodings = encode(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            yield [0, *(start for start, _ in encoding.offsets[1:]), len(text)]

    def _windows(self, text: str, edges: Sequence[int]) -> list[Piece]:
        pieces, last = [], len(edges) - 1
        for first in range(0, last, self.capacity - self.overlap):
            end = min(first + self.capacity, last)
            if text[edges[first] : edges[end]].strip():
                pieces.append(Piece(edges[first], edges[end]))
            if end == last:
                break
        return pieces
