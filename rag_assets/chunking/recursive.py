"""Strategy ``recursive``: cut at the largest unit of text that fits.

Paragraphs, else lines, sentences, words are merged up to the capacity. Characters are counted by
the library semantic-text-splitter, tokens by :mod:`rag_assets.chunking.token_chunks`, which has
the same rule and needs not count a text more than once.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from rag_assets.chunking import token_chunks
from rag_assets.chunking.chunker import EmbedBy
from rag_assets.chunking.pieces import Cutter
from rag_assets.chunking.size import Size, SizedChunking, splitter_cutter
from rag_assets.chunking.token_chunks import TokenStarts
from rag_assets.models.model_names import load_tokenizer


class RecursiveChunking(SizedChunking):
    """Cut at the largest text unit that fits: paragraphs, then sentences, then words."""

    libraries: ClassVar[tuple[str, ...]] = ("semantic-text-splitter",)

    strategy: Literal["recursive"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts at the largest unit."""
        return cutter(self.size)


def cutter(size: Size) -> Cutter:
    """Return what cuts texts into chunks of at most ``size``.

    Chunks of characters have no white space at their ends; chunks of tokens keep it, so that
    together they hold the whole text.

    Raises:
        ModelUnavailable: the tokenizer cannot be had.
    """
    if size.tokenizer is not None:
        starts = TokenStarts(load_tokenizer(size.tokenizer))
        return token_chunks.cutter(starts, size.capacity, size.overlap)

    return splitter_cutter(size.character_splitter())
