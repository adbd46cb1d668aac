"""How large a chunk may be, the options that say so, and the splitters for it.

The splitters are those of the library semantic-text-splitter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field, ValidationInfo, field_validator, model_validator

from rag_assets.chunking.chunker import Chunker, Overlap
from rag_assets.chunking.pieces import Cutter, Piece
from rag_assets.models.model_names import DEFAULT_MODEL, load_tokenizer, tokenizer_sha256
from rag_assets.package_versions import version

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


class SizedChunking(Chunker):
    """Chunks of a largest size, 200 tokens where none is given.

    ``max_tokens`` counts tokens of the tokenizer of the model ``tokenizer``; ``max_characters``
    takes its place and counts characters. ``overlap``, in the same unit, is how much a chunk may
    repeat of the one before.
    """

    max_characters: int | None = Field(default=None, ge=1, strict=True)
    max_tokens: int | None = Field(default=None, ge=1, strict=True)
    overlap: Overlap = 30
    tokenizer: str = Field(default=DEFAULT_MODEL, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _default_size(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("max_characters") is data.get("max_tokens") is None:
            return {**data, "max_tokens": 200}
        return data

    @field_validator("max_tokens")
    @classmethod
    def _one_unit(cls, max_tokens: int | None, info: ValidationInfo) -> int | None:
        if max_tokens is not None and info.data.get("max_characters") is not None:
            raise ValueError("give max_tokens or max_characters, not both")
        return max_tokens

    @field_validator("tokenizer")
    @classmethod
    def _counts_tokens(cls, tokenizer: str, info: ValidationInfo) -> str:
        if info.data.get("max_characters") is not None:
            raise ValueError("belongs to max_tokens; max_characters counts no tokens")
        return tokenizer

    @property
    def size(self) -> Size:
        """The largest chunk."""
        if self.max_characters is not None:
            return Size(self.max_characters, self.overlap)
        if self.max_tokens is None:
            raise TypeError(f"{self.strategy} has no size")
        return Size(self.max_tokens, self.overlap, self.tokenizer)

    def versions(self) -> Mapping[str, str]:
        """Return those of the libraries and of what counts tokens."""
        tokenizer = self.size.tokenizer
        counting = {} if tokenizer is None else tokenizer_versions(tokenizer)
        return {**super().versions(), **counting}


def tokenizer_versions(model: str) -> Mapping[str, str]:
    """Return the versions of the library and the tokenizer that count tokens.

    Raises:
        ModelUnavailable: the tokenizer cannot be had.
    """
    return {"tokenizers": version("tokenizers"), "tokenizer_sha256": tokenizer_sha256(model)}


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
