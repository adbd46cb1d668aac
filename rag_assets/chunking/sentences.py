"""Strategy ``sentences``: a number of sentences per chunk; and where the sentences of a text end.

The boundaries are those of the library sentencex (Wikimedia): full stops of the world's scripts,
less those after an abbreviation of the language, in a number, or inside quotes and brackets. A line
break inside a paragraph ends no sentence, an empty line does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rag_assets.chunking.chunker import Chunker, Cutter, EmbedBy, Overlap, Piece, Span, trimmed

Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[a-z]+)*$")]


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


def sentence_spans(text: str, language: str) -> list[Span]:
    """Return the sentences of a text, in order, without white space at their ends.

    Together they hold every character that is not white space.
    """
    from sentencex import get_sentence_boundaries

    boundaries = get_sentence_boundaries(language, text)
    spans = [trimmed(text, each["start_index"], each["end_index"]) for each in boundaries]
    return [(start, end) for start, end in spans if end > start]
