"""The words of each chunk with their frequencies, beside an index that has only the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.lexical.index_files import load_array, load_list, save_json
from rag_assets.retrieval.lexical.token_counts import TokenCounts

_VOCABULARY = "terms.vocabulary.json"
_TOKENS = "terms.tokens.npy"
_COUNTS = "terms.counts.npy"
_FIRST = "terms.first.npy"


@dataclass(frozen=True)
class TermVectors:
    """The tokens of chunk i lie at ``first[i]`` to ``first[i + 1]``, by ascending number.

    Attributes:
        vocabulary: all tokens, ascending.
        tokens: number of a token, int32, shape (entries,).
        counts: how often it occurs in the chunk, int32, shape (entries,).
        first: int64, shape (chunks + 1,).
    """

    vocabulary: Sequence[str]
    tokens: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]

    @classmethod
    def of_counts(cls, counts: TokenCounts) -> TermVectors:
        """Turn the counts of an index around."""
        order, first = counts.by_chunk
        tokens = counts.tokens_of(order).astype(np.int32)
        return cls(list(counts.vocabulary), tokens, counts.counts[order].astype(np.int32), first)

    @classmethod
    def load(cls, folder: Path) -> TermVectors:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        return cls(
            load_list(folder / _VOCABULARY),
            load_array(folder / _TOKENS, mmap=True),
            load_array(folder / _COUNTS, mmap=True),
            load_array(folder / _FIRST, mmap=True),
        )

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        save_json(folder / _VOCABULARY, list(self.vocabulary))
        for name, values in (
            (_TOKENS, self.tokens),
            (_COUNTS, self.counts),
            (_FIRST, self.first),
        ):
            np.save(folder / name, values, allow_pickle=False)

    def of(self, chunk: int) -> dict[str, int]:
        """Return token -> frequency in one chunk."""
        entries = slice(int(self.first[chunk]), int(self.first[chunk + 1]))
        numbers, counts = self.tokens[entries].tolist(), self.counts[entries].tolist()
        return {self.vocabulary[token]: n for token, n in zip(numbers, counts, strict=True)}
