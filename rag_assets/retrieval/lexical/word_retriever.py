"""What the lexical retrievers that analyse words share: the analyzer, and a folder to search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field, field_validator

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError, allowed_names
from rag_assets.retrieval.base import LexicalRetriever
from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts, Analysis, SortedTexts
from rag_assets.retrieval.lexical.analyzers import (
    ANALYZERS,
    AUTO,
    IDENTIFIERS,
    analyzer_code,
    check_analyzer,
)
from rag_assets.retrieval.lexical.index import LexicalIndex, WordSearcher
from rag_assets.retrieval.retriever import Searcher


class AnalysedRetriever(LexicalRetriever, ABC):
    """Options of a retriever over analysed words.

    ``analyzer`` is ``auto`` or a name; with ``identifiers`` part numbers, error codes, CamelCase
    names and paths are also indexed and searched for as wholes. ``title_weight`` is how often the
    words of a document's title count: Robertson, Zaragoza and Taylor: Simple BM25 Extension to
    Multiple Weighted Fields (CIKM 2004), in which a word's frequency is the weighted sum of those
    in the fields, as if the title stood there so often.
    """

    analyzer: str = AUTO
    identifiers: bool = False
    title_weight: int = Field(default=1, ge=0, le=100, strict=True)

    @field_validator("analyzer")
    @classmethod
    def _analyzer_exists(cls, name: str) -> str:
        names = (AUTO, *ANALYZERS)
        if name not in names:
            raise ValueError(f"unknown analyzer {allowed_names(name, names)}")
        try:
            check_analyzer(name)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return name

    @property
    def full_analyzer(self) -> str:
        """The name of the analyzer, with identifiers where wanted."""
        return f"{self.analyzer}{IDENTIFIERS}" if self.identifiers else self.analyzer

    def index_options(self) -> Mapping[str, Any]:
        """Return the options of the index; a title that counts once is not worth a word."""
        options = dict(super().index_options())
        if self.title_weight == 1:
            del options["title_weight"]
        return options

    def code_roots(self) -> list[Root]:
        """Return the roots with those of the analyzer."""
        return [*super().code_roots(), *analyzer_code(self.full_analyzer)]

    def analysis(self) -> Analysis:
        """Return the analyzer, and how often a title counts."""
        return Analysis(self.full_analyzer, self.title_weight)

    def build(self, chunks: pa.Table, texts: Sequence[str], folder: Path) -> Mapping[str, Any]:
        """Analyse and index the texts."""
        analysis = self.analysis()
        indexed = SortedTexts.of_chunks(chunks, texts, analysis.title_weight)
        return self.build_of(AnalysedTexts.of(indexed, analysis.analyzer), folder)

    @abstractmethod
    def build_of(self, analysed: AnalysedTexts, folder: Path) -> Mapping[str, Any]:
        """Index analysed texts into an empty folder; no text is analysed again."""

    def open(self, folder: Path) -> Searcher[Sequence[str]]:
        """Open the index."""
        return WordSearcher(LexicalIndex.load(folder))
