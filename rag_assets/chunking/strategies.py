"""Strategies ``none``, ``fixed``, ``parent``, ``sentences`` and ``semantic``.

By ``parent`` small chunks are searched, and the larger ones that they lie in are returned. A
document is cut into parents, and each parent into children, so that every child lies inside one
parent. The chunks are the children. That a hit gives its parent, once, at the place of its best
child, is the work of :func:`rag_assets.retrieval.unit_ranking`.

The boundaries of sentences are those of the library sentencex (Wikimedia): full stops of the
world's scripts, less those after an abbreviation of the language, in a number, or inside quotes and
brackets. A line break inside a paragraph ends no sentence, an empty line does.

By ``semantic`` each sentence is embedded together with ``buffer`` sentences on either side. A text
is cut between two sentences where the cosine distance of their vectors exceeds a percentile of all
such distances in the same text (the breakpoint rule of G. Kamradt's "5 Levels of Text Splitting",
2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assets.chunking.chunker import (
    CHILD_CHUNKING_TYPES,
    PARENT_CHUNKING_TYPES,
    Chunker,
    Cutter,
    EmbedBy,
    Overlap,
    Piece,
    SizedChunking,
    Span,
    split_pieces,
    trimmed,
)
from rag_assets.chunking.recursive import RecursiveChunking
from rag_assets.code_versions.closure import Root
from rag_assets.models.cache_fill import Vectors
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL, load_tokenizer, tokenizer_versions
from rag_assets.options import LazyTaggedUnion, Number
from rag_assets.store.canonical import fingerprint


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


class ParentChunking(Chunker):
    """Search small chunks, return the larger ones that contain them.

    A document is cut by ``parent``, and each parent by ``child``. The children are indexed; a run
    holds parents, each once, at the rank of its best child, and top_k counts parents.
    """

    has_parents: ClassVar[bool] = True

    strategy: Literal["parent"]
    child: Annotated[Chunker, LazyTaggedUnion(CHILD_CHUNKING_TYPES, "strategy")]
    parent: Annotated[Chunker, LazyTaggedUnion(PARENT_CHUNKING_TYPES, "strategy")]

    @model_validator(mode="after")
    def _parts_are_not_searched(self) -> Self:
        if any(part.index_texts is not None for part in (self.child, self.parent)):
            raise ValueError("put index_texts next to child and parent: they apply to the children")
        return self

    @property
    def by_blocks(self) -> bool:
        return self.child.by_blocks and self.parent.by_blocks

    @property
    def whole_parents(self) -> bool:
        return self.parent.whole_documents

    def cutting(self) -> Mapping[str, Any]:
        parts = {"child": self.child.cutting(), "parent": self.parent.cutting()}
        return {"strategy": self.strategy, **parts}

    def code_roots(self) -> list[Root]:
        roots = [*super().code_roots(), *self.child.code_roots(), *self.parent.code_roots()]
        return list(dict.fromkeys(roots))

    def versions(self) -> Mapping[str, str]:
        """Return those of the two, each with its part before its name."""
        parts = {"child": self.child.versions(), "parent": self.parent.versions()}
        return {f"{part}.{name}": v for part, of in parts.items() for name, v in of.items()}

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts texts into the children of all parents.

        Where parents overlap, a child that lies in two of them belongs to the first.
        """
        child, parent = self.child.cutter(embed_by), self.parent.cutter(embed_by)

        def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
            parents = [list(of_text) for of_text in parent(texts)]
            children = split_pieces(texts, parents, child, as_parents=True)
            for of_text, pieces in zip(parents, children, strict=True):
                first_of_span: dict[Span, Piece] = {}
                for piece in pieces:
                    first_of_span.setdefault((piece.start, piece.end), piece)
                # The only chunk of a blank text has a parent too, so that its id is of a kind.
                start, end = (of_text[0].start, of_text[0].end) if of_text else (0, 0)
                yield list(first_of_span.values()) or [Piece(start, start, (), (start, end))]

        return cut


Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[a-z]+)*$")]

DECIMALS = 6
"""Distances are rounded: a model's fp32 vectors differ by about 1e-6 from batch to batch."""


class SentencesChunking(Chunker):
    """A fixed number of sentences per chunk, of which ``overlap`` repeat the chunk before.

    ``language`` (ISO 639) sets which abbreviations do not end a sentence.
    """

    libraries: ClassVar[tuple[str, ...]] = ("sentencex",)

    strategy: Literal["sentences"]
    sentences: int = Field(5, ge=1, strict=True)
    overlap: Overlap = 0
    language: Language = "en"

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts runs of sentences; the last chunk of a text may have fewer."""
        number, overlap = self.sentences, self.overlap

        def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
            for text in texts:
                spans = sentence_spans(text, self.language)
                yield [
                    Piece(spans[first][0], spans[min(first + number, len(spans)) - 1][1])
                    for first in range(0, max(len(spans) - overlap, 1), number - overlap)
                    if spans
                ]

        return cut


class SemanticChunking(Chunker):
    """Cut between sentences whose meanings are far apart.

    Each sentence is embedded by ``model`` with ``buffer`` sentences on either side. A document is
    cut where the cosine distance of neighbours exceeds the ``percentile`` of its distances. A chunk
    of more than ``max_tokens`` tokens of the model is cut further; null leaves it.
    """

    libraries: ClassVar[tuple[str, ...]] = (
        "numpy",
        "semantic-text-splitter",
        "sentence-transformers",
        "sentencex",
        "torch",
        "transformers",
    )

    strategy: Literal["semantic"]
    model: str = Field(DEFAULT_MODEL, min_length=1)
    percentile: Number = Field(95, gt=0, lt=100)
    buffer: int = Field(0, ge=0, strict=True)
    language: Language = "en"
    max_tokens: int | None = Field(None, ge=1, strict=True)

    @property
    def by_blocks(self) -> bool:
        """Not so: the last bits of a vector depend on the batch, which is of many documents.

        Sentences that were embedded before are known to the cache of vectors.
        """
        return False

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts texts at their breakpoints; larger chunks as by ``recursive``."""
        embed, further = embed_by(self.model), None
        if self.max_tokens is not None:
            limit = RecursiveChunking(
                strategy="recursive", max_tokens=self.max_tokens, overlap=0, tokenizer=self.model
            )
            further = limit.cutter(embed_by)

        def cut(texts: Sequence[str]) -> Iterable[Sequence[Piece]]:
            spans = [sentence_spans(text, self.language) for text in texts]
            windows = [_windows(*each, self.buffer) for each in zip(texts, spans, strict=True)]
            # All texts at once: batches of a model are of many.
            flat = [window for of_text in windows for window in of_text]
            vectors = iter(embed(flat) if flat else ())
            pieces = [
                _pieces(of_text, [*islice(vectors, len(of_text))], self.percentile)
                for of_text in spans
            ]
            return pieces if further is None else split_pieces(texts, pieces, further)

        return cut

    def versions(self) -> Mapping[str, str]:
        """Return those of the libraries, of what counts tokens, and the model's."""
        limit = {} if self.max_tokens is None else tokenizer_versions(self.model)
        encoder = fingerprint(Encoder(self.model).describe("document"))
        return {**super().versions(), **limit, "encoder": encoder}


def breakpoints(vectors: Vectors, percentile: float) -> list[int]:
    """Return after which rows to cut: row i where distance(i, i + 1) exceeds the percentile.

    Args:
        vectors: of length 1, shape (sentences, dimension).
        percentile: above 0 and below 100.
    """
    if len(vectors) < 2:
        return []
    wide = vectors.astype(np.float64)
    distances = np.round(1.0 - np.sum(wide[:-1] * wide[1:], axis=1), DECIMALS)
    return [int(row) for row in np.flatnonzero(distances > np.percentile(distances, percentile))]


def _windows(text: str, spans: Sequence[Span], buffer: int) -> list[str]:
    last = len(spans) - 1
    return [
        text[spans[max(row - buffer, 0)][0] : spans[min(row + buffer, last)][1]]
        for row in range(len(spans))
    ]


def _pieces(spans: Sequence[Span], vectors: Sequence[Vectors], percentile: float) -> list[Piece]:
    if not spans:
        return []
    edges = [0, *(row + 1 for row in breakpoints(np.array(vectors), percentile)), len(spans)]
    return [Piece(spans[first][0], spans[end - 1][1]) for first, end in pairwise(edges)]


def sentence_spans(text: str, language: str) -> list[Span]:
    """Return the sentences of a text, in order, without white space at their ends.

    Together they hold every character that is not white space.
    """
    from sentencex import get_sentence_boundaries

    boundaries = get_sentence_boundaries(language, text)
    spans = [trimmed(text, each["start_index"], each["end_index"]) for each in boundaries]
    return [(start, end) for start, end in spans if end > start]
