"""Strategies ``none``, ``fixed`` and ``sentences``: whole documents, windows, runs of sentences.

The boundaries of sentences are those of the library sentencex (Wikimedia): full stops of the
world's scripts, less those after an abbreviation of the language, in a number, or inside quotes and
brackets. A line break inside a paragraph ends no sentence, an empty line does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rag_assets.chunking.chunker import Chunker, EmbedBy, Overlap, Size, SizedChunking
from rag_assets.chunking.pieces import Cutter, Piece, Span, trimmed
from rag_assets.models.model_names import load_tokenizer

Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[a-z]+)*$")]


class NoneChunking(Chunker):
    """Every document is one chunk."""

    whole_documents: ClassVar[bool] = True

    strategy: Literal["none"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what gives whole texts."""
        return whole_texts


def whole_texts(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
    """Give each text as one piece, however long it is."""
    for text in texts:
        yield [Piece(0, len(text))]


class FixedChunking(SizedChunking):
    """Windows of exactly so many tokens or characters; the last one may be shorter."""

    strategy: Literal["fixed"]

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts windows."""
        return window_cutter(self.size)


def window_cutter(size: Size) -> Cutter:
    """Return what cuts texts into windows; each begins ``capacity - overlap`` after the last.

    A blank window is left out. Tokens are those of the whole text: a window that begins inside a
    word may count a few more when it is tokenized alone. What the tokenizer passes over belongs to
    the token before.
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


class SentencesChunking(Chunker):
    """So many sentences a chunk, of which ``overlap`` repeat the chunk before.

    ``language`` (ISO 639) says whose abbreviations end no sentence.
    """

    libraries: ClassVar[tuple[str, ...]] = ("sentencex",)

    strategy: Literal["sentences"]
    sentences: int = Field(5, ge=1, strict=True)
    overlap: Overlap = 0
    language: Language = "en"

    def cutter(self, embed_by: EmbedBy) -> Cutter:
        """Return what cuts runs of sentences."""
        return sentence_cutter(self.sentences, self.overlap, self.language)


def sentence_cutter(sentences: int, overlap: int, language: str) -> Cutter:
    """Return what cuts texts into runs of sentences; the last chunk of a text may have fewer."""

    def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
        for text in texts:
            spans = sentence_spans(text, language)
            yield [
                Piece(spans[first][0], spans[min(first + sentences, len(spans)) - 1][1])
                for first in range(0, max(len(spans) - overlap, 1), sentences - overlap)
                if spans
            ]

    return cut


def sentence_spans(text: str, language: str) -> list[Span]:
    """Return the sentences of a text, in order, without white space at their ends.

    Together they hold every character that is not white space.
    """
    from sentencex import get_sentence_boundaries

    boundaries = get_sentence_boundaries(language, text)
    spans = [trimmed(text, each["start_index"], each["end_index"]) for each in boundaries]
    return [(start, end) for start, end in spans if end > start]
