"""What scores chunks by words: any engine, and one whose weights are known before the query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rag_assets.ordering import Hits, Positions, best_above_zero
from rag_assets.retrieval.sparse_columns import Floats, SparseColumns


class WordEngine(ABC):
    """An index over the tokens of chunks that scores all of them for a query."""

    @property
    @abstractmethod
    def vocabulary_size(self) -> int:
        """Number of distinct tokens."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the index as ``.npy`` and JSON files."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> Self:
        """Read an index back; ``mmap`` maps its arrays instead of reading them.

        Raises:
            StoreError: a file is missing or damaged.
        """

    @abstractmethod
    def scores(self, query_tokens: Sequence[str]) -> Floats:
        """Return the score of every chunk, float64, shape (chunks,); 0 where no token occurs.

        A token that is repeated counts as often as it occurs.
        """

    def best(self, queries: Iterable[Sequence[str]], ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield for each query the ``k`` best chunks of those that score above 0, in the one order.

        Args:
            queries: tokens each.
            ids_rank: place of each chunk's id in byte order.
            k: hits a query at most.

        Raises:
            UsageError: ``k`` is below 1.
        """
        for tokens in queries:
            yield best_above_zero(self.scores(tokens), ids_rank, k)


@dataclass(frozen=True)
class WeightedWords(WordEngine):
    """Words with a weight in each chunk that holds them.

    Attributes:
        weights: a column for each word, a row for each chunk.
        vocabulary: token -> its column; numbered in ascending order of the tokens.
    """

    weights: SparseColumns
    vocabulary: Mapping[str, int]

    @property
    def vocabulary_size(self) -> int:
        """Number of distinct tokens."""
        return len(self.vocabulary)

    def columns_of(self, query_tokens: Sequence[str]) -> list[int]:
        """Return the columns of the tokens that some chunk holds, in their order."""
        return [self.vocabulary[token] for token in query_tokens if token in self.vocabulary]

    def scores(self, query_tokens: Sequence[str]) -> Floats:
        """Return the sum of the weights of the query's tokens in every chunk."""
        return self.weights.sums(self.columns_of(query_tokens))
