"""What a chunking strategy is: its options, and how they become a function that cuts.

A strategy is a class in one file. One of ours has a line in ``CHUNKING_TYPES`` below, one of
another package an entry point of the group ``rag_assets.chunkers``. Splitters are those of the
library semantic-text-splitter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from rag_assets.chunking.index_texts import IndexTexts
from rag_assets.chunking.pieces import Cutter, Piece
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.models.model_names import DEFAULT_MODEL, load_tokenizer, tokenizer_sha256
from rag_assets.models.vectors import Vectors
from rag_assets.options import Options
from rag_assets.package_versions import version
from rag_assets.plugins import Kind, members

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

Embed = Callable[[Sequence[str]], Vectors]
"""Gives for each text, at least one, a vector of length 1: float32, shape (texts, dimension)."""

EmbedBy = Callable[[str], Embed]
"""``embed_by(model)`` gives what embeds texts by that model."""


WITH_HEADINGS = "title+heading+text"


class Chunker(Options, ABC):
    """Options of one chunking strategy.

    Where it has an option ``indexed`` whose value is :data:`WITH_HEADINGS`, the heading path of a
    chunk is indexed between title and text. With ``index_texts`` a chunk is found by several texts.

    Attributes:
        libraries: packages whose versions determine the chunks.
        whole_documents: every document is one chunk, and keeps its id.
        has_parents: every piece has a parent, which is returned in its place.
    """

    libraries: ClassVar[tuple[str, ...]] = ()
    whole_documents: ClassVar[bool] = False
    has_parents: ClassVar[bool] = False

    strategy: str
    # Says how chunks are found, not how documents are cut: no part of what is dumped.
    index_texts: IndexTexts | None = Field(default=None, exclude=True)

    @abstractmethod
    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return the function that cuts as the options say.

        Args:
            embed_by: gives the vectors of a model, for strategies that need some.
        """

    @property
    def by_blocks(self) -> bool:
        """Whether a document is cut the same whatever else is cut with it.

        An edit of one document then cuts its block only.
        """
        return True

    @property
    def whole_parents(self) -> bool:
        """Whether the parents are whole documents, and have their ids."""
        return False

    def cutting(self) -> Mapping[str, Any]:
        """Return the options that say how to cut, without what is indexed of a chunk."""
        return self.model_dump(mode="json", exclude={"indexed"})

    def code_roots(self) -> list[Root]:
        """Return the roots of the code that cuts."""
        return [root_of(type(self))]

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries, the tokenizer and the model that cut.

        Raises:
            ModelUnavailable: the tokenizer or the model cannot be had.
        """
        return {name: version(name) for name in self.libraries}


def _less_than_a_chunk(overlap: int, info: ValidationInfo) -> int:
    for key in ("max_characters", "max_tokens", "sentences"):
        size = info.data.get(key)
        if size is not None and overlap >= size:
            raise ValueError(f"overlap {overlap} must be less than {key} {size}")
    return overlap


Overlap = Annotated[
    int, Field(ge=0, strict=True, validate_default=True), AfterValidator(_less_than_a_chunk)
]
"""How much a chunk repeats of the one before; less than its size."""


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
    """Return the versions of the library and the tokenizer that count tokens."""
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


KIND = Kind("strategy", "rag_assets.chunkers", (Chunker,), "strategy")

_PLACES = {
    "none": "windows:NoneChunking",
    "recursive": "recursive:RecursiveChunking",
    "fixed": "windows:FixedChunking",
    "markdown": "markdown:MarkdownChunking",
    "sentences": "windows:SentencesChunking",
    "semantic": "semantic:SemanticChunking",
    "parent": "parent:ParentChunking",
}
"""``strategy`` -> module of this package, and class, in the order in which people see them."""

CHUNKING_TYPES = members(KIND, {name: f"{__package__}.{place}" for name, place in _PLACES.items()})
"""Every ``strategy``."""

CHILD_CHUNKING_TYPES = CHUNKING_TYPES.without("none", "parent")
"""What may cut the parents of ``strategy: parent``."""

PARENT_CHUNKING_TYPES = CHUNKING_TYPES.without("parent")
"""What may cut the documents into parents."""
