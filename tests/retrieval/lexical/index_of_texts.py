"""BM25 over texts, without an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts, SortedTexts
from rag_assets.retrieval.lexical.bm25 import BM25


def build_index(
    chunk_ids: Sequence[str], texts: Sequence[str], *, folder: Path, analyzer: str, **options: Any
) -> Mapping[str, Any]:
    """Write the index of these texts, under options of ``type: bm25``; return its facts."""
    analysed = AnalysedTexts.of(SortedTexts.of(chunk_ids, texts), analyzer)
    return BM25(type="bm25", **options).build_of(analysed, folder)
