"""How large a chunk may be, and the splitters of the library semantic-text-splitter for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_assets.chunking.pieces import Cutter, Piece
from rag_assets.models.model_names import load_tokenizer

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter


@dataclass(frozen=True)
class Size:
    """The largest chunk and how much of it the next one may repeat.

    Attributes:
        capacity: most tokens, special ones not counted, or most characters in a chunk.
        overlap: how many of them a chunk repeats of the one before; less than ``capacity``.
        tokenizer: name of the model whose tokenizer counts; None counts characters.
    """

    capacity: int
    overlap: int = 0
    tokenizer: str | None = None

    def character_splitter(self) -> TextSplitter:
        """Return a splitter by characters: at paragraphs, else sentences, else words."""
        from semantic_text_splitter import TextSplitter

        return TextSplitter(self.capacity, self.overlap)

    def markdown_splitter(self) -> MarkdownSplitter:
        """Return a splitter that also keeps Markdown blocks whole: tables, lists, fenced code.

        Raises:
            ModelUnavailable: the tokenizer cannot be had.
        """
        from semantic_text_splitter import MarkdownSplitter

        if self.tokenizer is None:
            return MarkdownSplitter(self.capacity, self.overlap)
        tokenizer = load_tokenizer(self.tokenizer)
        return MarkdownSplitter.from_huggingface_tokenizer(tokenizer, self.capacity, self.overlap)


def splitter_cutter(splitter: TextSplitter | MarkdownSplitter) -> Cutter:
    """Return a splitter of that library as what cuts texts; its chunks have no outer blanks."""

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        for parts in splitter.chunk_all_indices(texts):
            yield [Piece(start, start + len(part)) for start, part in parts]

    return cut


def split_pieces(
    texts: Sequence[str], pieces: Sequence[Sequence[Piece]], cut: Cutter
) -> Iterator[Sequence[Piece]]:
    """Cut the pieces of each text further; one that fits stays whole."""
    slices = [
        text[piece.start : piece.end]
        for text, own_pieces in zip(texts, pieces, strict=True)
        for piece in own_pieces
    ]
    parts = iter(cut(slices))
    for own_pieces in pieces:
        yield [
            Piece(piece.start + part.start, piece.start + part.end, piece.headings)
            for piece in own_pieces
            for part in next(parts)
        ]
