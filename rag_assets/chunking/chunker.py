"""What a chunking strategy is: its options, how they cut texts, and the chunks table of them.

A strategy is a class in one file. One of ours has a line in ``CHUNKING_TYPES`` below, one of
another package an entry point of the group ``rag_assets.chunkers``. Splitters are those of the
library semantic-text-splitter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from rag_assets.chunking.index_texts import HEADING_SEPARATOR, IndexTexts
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.errors import UsageError
from rag_assets.models.cache_fill import Vectors
from rag_assets.models.model_names import DEFAULT_MODEL, tokenizer_versions
from rag_assets.options import Options
from rag_assets.package_versions import version
from rag_assets.plugins import Kind, members
from rag_assets.schemas import CHUNKS

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

Span = tuple[int, int]
"""``[start, end)`` in characters (code points) of a text."""

DOCUMENTS_AT_ONCE = 1_000
"""Documents that are cut together: enough to fill the batches of a model."""

WITH_HEADINGS = "title+heading+text"


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

Embed = Callable[[Sequence[str]], Vectors]
"""Gives for each text, at least one, a vector of length 1: float32, shape (texts, dimension)."""

EmbedBy = Callable[[str], Embed]
"""``embed_by(model)`` gives what embeds texts by that model."""


class Chunker(Options, ABC):
    """Options of one chunking strategy.

    Where it has an option ``indexed`` whose value is :data:`WITH_HEADINGS`, the heading path of a
    chunk is indexed between title and text. With ``index_texts`` a chunk is found by several texts.

    Attributes:
        libraries: packages whose versions determine the chunks.
        whole_documents: every document is one chunk, and keeps its id.
        has_parents: every piece has a parent, which is returned in its place.
        by_blocks: a document is cut the same whatever else is cut with it, so that an edit of one
            document cuts its block only.
        whole_parents: the parents are whole documents, and have their ids.
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
        return True

    @property
    def whole_parents(self) -> bool:
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


class SizedChunking(Chunker):
    """Chunks up to a maximum size (default: 200 tokens).

    ``max_tokens`` counts tokens by the tokenizer of the model ``tokenizer``; ``max_characters``
    counts characters instead. ``overlap``, in the same unit, is how much of the
    chunk before may be repeated.
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
            raise ValueError("is only for max_tokens; max_characters counts no tokens")
        return tokenizer

    @property
    def capacity(self) -> int:
        """Most tokens, special ones not counted, or most characters in a chunk."""
        return self.max_characters or self.max_tokens or 0

    def versions(self) -> Mapping[str, str]:
        counting = {} if self.max_tokens is None else tokenizer_versions(self.tokenizer)
        return {**super().versions(), **counting}


def trimmed(text: str, start: int, end: int) -> Span:
    """Return the span without the white space at its ends; of length 0 when there is no more."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())


def splitter_cutter(splitter: TextSplitter | MarkdownSplitter) -> Cutter:
    """Return a splitter of that library as what cuts texts; its chunks have no outer blanks."""

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        for parts in splitter.chunk_all_indices(texts):
            yield [Piece(start, start + len(part)) for start, part in parts]

    return cut


def split_pieces(
    texts: Sequence[str],
    pieces: Sequence[Sequence[Piece]],
    cut: Cutter,
    *,
    as_parents: bool = False,
) -> Iterator[list[Piece]]:
    """Cut the pieces of each text further; one that fits stays whole.

    The headings of a part are those of its piece and, below them, its own.

    Args:
        texts: the texts.
        pieces: of each text.
        cut: how they are cut.
        as_parents: whether each part is given its piece as its parent.
    """
    slices = [
        text[piece.start : piece.end]
        for text, of_text in zip(texts, pieces, strict=True)
        for piece in of_text
    ]
    parts = iter(cut(slices))
    for of_text in pieces:
        yield [
            Piece(
                piece.start + part.start,
                piece.start + part.end,
                joined(piece.headings, part.headings),
                (piece.start, piece.end) if as_parents else None,
            )
            for piece in of_text
            for part in next(parts)
        ]


def joined(above: tuple[str, ...], below: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headings above a slice and then those in it; a common part is named once.

    A slice that begins with the heading of its section names that heading again.
    """
    common = min(len(above), len(below))
    while above[len(above) - common :] != below[:common]:
        common -= 1
    return above + below[common:]


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


@dataclass
class DocumentCut:
    """Cuts documents as one strategy says; it can be sent to another process.

    Attributes:
        config: the strategy.
        embed_by: gives the vectors of a model. It stays in this process: what embeds is cut here.
    """

    config: Chunker
    embed_by: EmbedBy | None

    def __call__(self, documents: pa.Table) -> pa.Table:
        """Return the chunks of some documents; both as :func:`cut_documents` has them."""
        whole, whole_parents = self.config.whole_documents, self.config.whole_parents
        return cut_documents(documents, self._cutter, whole=whole, whole_parents=whole_parents)

    @cached_property
    def _cutter(self) -> Cutter:
        return self.config.cutter(self.embed_by or _embeds_nothing)

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs, which makes its own cutter."""
        return {"config": self.config, "embed_by": None}


def _embeds_nothing(model: str) -> Embed:
    raise UsageError(f"chunks by the vectors of {model} are not cut block by block")


def _id(document_id: str, span: Span, whole: bool) -> str:
    return document_id if whole else f"{document_id}#{span[0]}-{span[1]}"


KIND = Kind("strategy", "rag_assets.chunkers", (Chunker,), "strategy")

_PLACES = {
    "none": "fixed:NoneChunking",
    "recursive": "recursive:RecursiveChunking",
    "fixed": "fixed:FixedChunking",
    "markdown": "markdown:MarkdownChunking",
    "sentences": "sentences:SentencesChunking",
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
