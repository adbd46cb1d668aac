"""What the lexical retrievers that analyse words share: the analyzer, and a folder to search."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import field_validator

from rag_assets.errors import allowed_names
from rag_assets.lexical.analyzers import ANALYZERS, AUTO, IDENTIFIERS
from rag_assets.lexical.index import LexicalIndex
from rag_assets.lexical.search import search
from rag_assets.ordering import Hits
from rag_assets.retrievers.base import LexicalRetriever


class AnalysedRetriever(LexicalRetriever, ABC):
    """Options of a retriever over analysed words.

    ``analyzer`` is ``auto`` or a name; with ``identifiers`` part numbers, error codes, CamelCase
    names and paths are also indexed and searched for as wholes.
    """

    analyzer: str = AUTO
    identifiers: bool = False

    @field_validator("analyzer")
    @classmethod
    def _analyzer_exists(cls, name: str) -> str:
        names = (AUTO, *ANALYZERS)
        if name not in names:
            raise ValueError(f"unknown analyzer {allowed_names(name, names)}")
        return name

    @property
    def full_analyzer(self) -> str:
        """The name of the analyzer, with identifiers where wanted."""
        return f"{self.analyzer}{IDENTIFIERS}" if self.identifiers else self.analyzer

    def open(self, folder: Path) -> IndexSearcher:
        """Open the index."""
        return IndexSearcher(LexicalIndex.load(folder))


@dataclass(frozen=True)
class IndexSearcher:
    """An opened lexical index."""

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
