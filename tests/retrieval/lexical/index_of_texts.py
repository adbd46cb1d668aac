"""BM25 and TF-IDF over texts or tokens, without an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.lexical.chunk_tokens import ChunkTokens
from rag_assets.retrieval.lexical.tfidf import TfIdf
from rag_assets.retrieval.lexical.tokens import AnalysedSegment, AnalysedTexts
from rag_assets.retrieval.lexical.words import AnalysedRetriever, WordIndex


def build_index(
    chunk_ids: Sequence[str], texts: Sequence[str], *, folder: Path, analyzer: str, **options: Any
) -> Mapping[str, Any]:
    """Write the index of these texts, under options of ``type: bm25``; return its facts."""
    chunks = pa.table({"chunk_id": pa.array(chunk_ids, pa.string())})
    return BM25(type="bm25", analyzer=analyzer, **options).build(chunks, texts, folder)


def segments_of(
    chunks: Sequence[Sequence[str]], ends: Sequence[int] = (), analyzer: str = "whitespace"
) -> AnalysedTexts:
    """Return chunks of tokens in segments, which end before these chunks."""
    ids = [f"c{number:06}" for number in range(len(chunks))]
    segments = [
        AnalysedSegment("", (), (ids[start:end], ChunkTokens.joined([chunks[start:end]])))
        for start, end in pairwise([0, *ends, len(chunks)])
    ]
    return AnalysedTexts.of_segments(segments, analyzer)


def _index(options: AnalysedRetriever, analysed: AnalysedTexts) -> WordIndex:
    return WordIndex.of([part.segment for part in analysed.segments], analysed.analyzer, options)


def bm25(chunks: Sequence[Sequence[str]], ends: Sequence[int] = (), **options: Any) -> WordIndex:
    """Return the index of chunks of tokens."""
    return _index(BM25(type="bm25", **options), segments_of(chunks, ends))


def tfidf(
    chunks: Sequence[Sequence[str]],
    weighting: str,
    k1: float | None = None,
    ends: Sequence[int] = (),
) -> WordIndex:
    """Return the index of chunks of tokens."""
    options = {"type": "tfidf", "weighting": weighting, "k1": k1}
    return _index(TfIdf.model_validate(options), segments_of(chunks, ends))


def opened(folder: Path, **options: Any) -> WordIndex:
    """Open what ``build_index`` wrote under these options."""
    return BM25(type="bm25", **options).opened(folder)
