"""Lexical retrieval over analysed words: the options that all such types share, and their index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import field_validator

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError, allowed_names
from rag_assets.ordering import Hits, best_above_zero
from rag_assets.retrieval.array_folder import (
    TERMS,
    ArrayFolder,
    Floats,
    SparseIndex,
    load_sparse,
)
from rag_assets.retrieval.base import LexicalRetriever, QuerySearcher, Searcher
from rag_assets.retrieval.lexical.analyzers import (
    ANALYZERS,
    AUTO,
    analyze_all,
    analyzer_code,
    analyzer_versions,
    check_analyzer,
)
from rag_assets.retrieval.lexical.tokens import AnalysedTexts

_DESCRIPTION = "word_index"

Repeats = Literal["added", "multiplied", "cosine"]
"""What a token that stands n times in the query counts: its weight added n times or times n, or
its part of the cosine of query and chunk."""


def smooth_idf(n_chunks: int, holding: npt.NDArray[np.int64]) -> Floats:
    """Return the idf of scikit-learn of tokens that so many chunks hold."""
    idf: Floats = np.log((1 + n_chunks) / (1 + holding)) + 1
    return idf


@dataclass(frozen=True)
class WordIndex(SparseIndex, QuerySearcher[Sequence[str]]):
    """Words with a weight in each chunk that holds them; searched for texts.

    Attributes:
        analyzer: its name; queries are analysed like the chunks.
        vocabulary: token -> its column; numbered in ascending order of the tokens.
        repeats: what a token counts that is repeated in the query.
    """

    analyzer: str
    vocabulary: Mapping[str, int]
    repeats: Repeats

    @cached_property
    def idf(self) -> Floats:
        """What the cosine weighs each token of a query by."""
        return smooth_idf(len(self.chunk_ids), self.holding)

    @classmethod
    def of(
        cls,
        analysed: AnalysedTexts,
        counts: SparseIndex,
        weights: Floats,
        repeats: Repeats,
    ) -> WordIndex:
        """Return the index with a weight in the place of each count of analysed texts."""
        return cls(
            analysed.chunk_ids,
            weights,
            counts.indices,
            counts.indptr,
            analysed.analyzer,
            {word: number for number, word in enumerate(analysed.tokens.words)},
            repeats,
        )

    @classmethod
    def load(cls, folder: Path) -> WordIndex:
        """Open what ``save`` wrote."""
        files = ArrayFolder(folder)
        described = files.mapping(_DESCRIPTION, ["analyzer", "repeats"])
        terms = files.table(TERMS)
        words = terms.column("term").to_pylist()
        return cls(
            **vars(load_sparse(files, terms)),
            analyzer=described["analyzer"],
            vocabulary=dict(zip(words, range(len(words)), strict=True)),
            repeats=described["repeats"],
        )

    def save(self, folder: Path) -> None:
        """Write the index as Parquet and JSON files."""
        files = ArrayFolder(folder)
        self.save_tables(files, list(self.vocabulary))
        files.save(**{_DESCRIPTION: {"analyzer": self.analyzer, "repeats": self.repeats}})

    def scores(self, query_tokens: Sequence[str]) -> Floats:
        """Return the score of every chunk, float64, shape (chunks,); 0 where no token occurs."""
        columns = [self.vocabulary[token] for token in query_tokens if token in self.vocabulary]
        if self.repeats == "added":
            return self.sums(columns)
        counts = Counter(columns)  # in the order in which tokens occur first
        factors = np.array(list(counts.values()), dtype=np.float64)
        if self.repeats == "cosine" and counts:
            factors *= self.idf[list(counts)]
            factors /= np.sqrt(np.sum(factors * factors))
        return self.sums(list(counts), factors.tolist())

    def read(self, queries: Sequence[str]) -> Sequence[Sequence[str]]:
        return analyze_all(self.analyzer, queries)

    def ranked(self, query: Sequence[str], depth: int) -> Hits:
        """Return the chunks that score above 0 for the tokens of one query, at most ``depth``.

        Order: score descending, then id descending by UTF-8 bytes, exact at the cut. A query
        without a token that is in the index has no hits.
        """
        return best_above_zero(self.scores(query), self.ids_rank, depth)


class AnalysedRetriever(LexicalRetriever, ABC):
    """Options of a retriever over analysed words.

    ``analyzer`` is ``auto`` or a name.
    """

    analyzer: str = AUTO

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

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), **analyzer_versions(self.analyzer)}

    def code_roots(self) -> list[Root]:
        return [*super().code_roots(), *analyzer_code(self.analyzer)]

    @abstractmethod
    def weighted(self, analysed: AnalysedTexts) -> WordIndex:
        """Return the index of analysed texts; those of equal analysis share their words."""

    def build_of(self, analysed: AnalysedTexts, folder: Path) -> Mapping[str, Any]:
        """Index analysed texts into an empty folder; no text is analysed again."""
        self.weighted(analysed).save(folder)
        return {**analysed.facts, "bytes": ArrayFolder(folder).size}

    def build(self, chunks: pa.Table, texts: Sequence[str], folder: Path) -> Mapping[str, Any]:
        ids = chunks.column("chunk_id").to_pylist()
        return self.build_of(AnalysedTexts.of(ids, texts, self.analyzer), folder)

    def open(self, folder: Path) -> Searcher[Sequence[str]]:
        return WordIndex.load(folder)
