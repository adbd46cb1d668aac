"""Strategy ``semantic``: cut between sentences whose meanings are far apart.

Each sentence is embedded together with ``buffer`` sentences on either side. A text is cut between
two sentences where the cosine distance of their vectors exceeds a percentile of all such distances
in the same text (the breakpoint rule of G. Kamradt's "5 Levels of Text Splitting", 2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assets.chunking.chunker import Chunker, Cutter, EmbedBy, Piece, Span, split_pieces
from rag_assets.chunking.recursive import RecursiveChunking
from rag_assets.chunking.sentences import Language, sentence_spans
from rag_assets.models.cache_fill import Vectors
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL, tokenizer_versions
from rag_assets.options import Number
from rag_assets.store.canonical import fingerprint

DECIMALS = 6
"""Distances are rounded: a model's fp32 vectors differ by about 1e-6 from batch to batch."""


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
