"""Strategies ``none``, ``fixed`` and ``sentences``: whole documents, windows, runs of sentences.

The boundaries of sentences are those of the library sentencex (Wikimedia): full stops of the
world's scripts, less those after an abbreviation of the language, in a number, or inside quotes and
brackets. A line break inside a paragraph ends no sentence, an empty line does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rag_assets.chunking.chunker import Chunker, EmbedBy, Overlap, SizedChunking
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
        """Return what cuts windows; each begins ``capacity - overlap`` after the last.

        A blank window is left out. Tokens are those of the whole text: a window that begins inside
        a word may count a few more when it is tokenized alone. What the tokenizer passes over
        belongs to the token before.
        """

        def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
            for text, edges in zip(texts, self._edges(texts), strict=True):
                last = len(edges) - 1
                step = self.capacity - self.overlap
                firsts = range(0, max(last - self.overlap, 1) if last else 0, step)
                spans = [(edges[n], edges[min(n + self.capacity, last)]) for n in firsts]
                yield [Piece(*span) for span in spans if text[slice(*span)].strip()]

        return cut

    def _edges(self, texts: Sequence[str]) -> Iterator[Sequence[int]]:
        """Give for each text where its units begin, and where the last one ends.

        The tokens of one character, such as the bytes of an emoji, all begin where it begins.
        """
        if self.max_characters is not None:
            yield from (range(len(text) + 1) for text in texts)
            return
        encode = load_tokenizer(self.tokenizer).encode_batch
        for text, encoding in zip(texts, encode([*texts], add_special_tokens=False), strict=True):
            yield [0, *(start for start, _ in encoding.offsets[1:]), len(text)]


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
        """Return what cuts runs of sentences; the last chunk of a text may have fewer."""
        size, step = self.sentences, self.sentences - self.overlap

        def cut(texts: Sequence[str]) -> Iterator[Sequence[Piece]]:
            for text in texts:
                spans = sentence_spans(text, self.language)
                firsts = range(0, max(len(spans) - self.overlap, 1), step) if spans else ()
                runs = (spans[first : first + size] for first in firsts)
                yield [Piece(run[0][0], run[-1][1]) for run in runs]

        return cut


def sentence_spans(text: str, language: str) -> list[Span]:
    """Return the sentences of a text, in order, without white space at their ends.

    Together they hold every character that is not white space.
    """
    from sentencex import get_sentence_boundaries

    boundaries = get_sentence_boundaries(language, text)
    spans = [trimmed(text, each["start_index"], each["end_index"]) for each in boundaries]
    return [(start, end) for start, end in spans if end > start]
