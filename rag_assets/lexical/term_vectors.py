"""The words of each chunk with their frequencies, beside an index that has only the reverse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.lexical.index_files import load_array, load_list, save_json

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
    def build(cls, texts: Sequence[Sequence[str]]) -> TermVectors:
        """Count the tokens of each chunk."""
        vocabulary = sorted({token for tokens in texts for token in tokens})
        number = {token: position for position, token in enumerate(vocabulary)}
        counted = [
            sorted((number[token], n) for token, n in Counter(tokens).items()) for tokens in texts
        ]
        entries = np.array([pair for chunk in counted for pair in chunk], np.int32).reshape(-1, 2)
        first = np.concatenate([[0], np.cumsum([len(chunk) for chunk in counted])])
        return cls(
            vocabulary,
            np.ascontiguousarray(entries[:, 0]),
            np.ascontiguousarray(entries[:, 1]),
            first.astype(np.int64),
        )

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
