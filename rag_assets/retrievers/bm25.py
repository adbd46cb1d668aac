"""``type: bm25``: lexical retrieval by BM25 over analysed words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.lexical.index import LexicalIndex, build_index, engine_versions
from rag_assets.lexical.search import search
from rag_assets.options import Number
from rag_assets.ordering import Hits
from rag_assets.retrievers.base import LexicalRetriever


class BM25(LexicalRetriever):
    """Lexical retrieval: BM25 over analysed words.

    ``engine: bm25s`` computes Lucene's formula; ``rank_bm25`` is the reference implementation
    ``BM25Okapi`` of the package rank-bm25.
    """

    code_version: ClassVar[str] = "2"
    implementation: ClassVar[tuple[str, ...]] = ("rag_assets.lexical", "rag_assets.ordering")

    type: Literal["bm25"]
    analyzer: Literal["auto", "english", "standard", "cjk", "whitespace"] = "auto"
    engine: Literal["bm25s", "rank_bm25"] = "bm25s"
    k1: Number = Field(default=1.2, ge=0)
    b: Number = Field(default=0.75, ge=0, le=1)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the engine and the analyzer."""
        return engine_versions(self.engine, self.analyzer)

    def build(self, chunks: pa.Table, texts: Sequence[str], folder: Path) -> Mapping[str, Any]:
        """Analyse and index the texts."""
        return build_index(
            chunks.column("chunk_id").to_pylist(),
            texts,
            engine=self.engine,
            analyzer=self.analyzer,
            k1=self.k1,
            b=self.b,
            folder=folder,
        )

    def open(self, folder: Path) -> BM25Searcher:
        """Open the index."""
        return BM25Searcher(LexicalIndex.load(folder))


@dataclass(frozen=True)
class BM25Searcher:
    """An opened BM25 index."""

    index: LexicalIndex

    @property
    def chunk_ids(self) -> Sequence[str]:
        """The ids of the chunks by position."""
        return self.index.chunk_ids

    def search(
        self, queries: Sequence[str], depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query."""
        return search(self.index, queries, depth, progress)
