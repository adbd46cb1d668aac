"""BM25 and TF-IDF over texts or tokens, without an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.tfidf import TfIdf
from rag_assets.retrieval.lexical.tokens import AnalysedTexts, ChunkTokens
from rag_assets.retrieval.lexical.words import WordIndex


def build_index(
    chunk_ids: Sequence[str], texts: Sequence[str], *, folder: Path, analyzer: str, **options: Any
) -> Mapping[str, Any]:
    """Write the index of these texts, under options of ``type: bm25``; return its facts."""
    analysed = AnalysedTexts.of(chunk_ids, texts, analyzer)
    return BM25(type="bm25", **options).build_of(analysed, folder)


def _analysed(chunks: Sequence[Sequence[str]]) -> AnalysedTexts:
    ids = [f"c{number:06}" for number in range(len(chunks))]
    return AnalysedTexts(ids, "whitespace", ChunkTokens.joined([chunks]))


def bm25(chunks: Sequence[Sequence[str]], **options: Any) -> WordIndex:
    """Return the index of chunks of tokens."""
    return BM25(type="bm25", **options).weighted(_analysed(chunks))


def tfidf(chunks: Sequence[Sequence[str]], weighting: str, k1: float | None = None) -> WordIndex:
    """Return the index of chunks of tokens."""
    options = {"type": "tfidf", "weighting": weighting, "k1": k1}
    return TfIdf.model_validate(options).weighted(_analysed(chunks))
