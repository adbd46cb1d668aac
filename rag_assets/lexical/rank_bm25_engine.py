"""BM25 by rank-bm25 (``BM25Okapi``): the reference variant, exact but slow; for small corpora.

With the symbols of :mod:`rag_assets.lexical.bm25s_engine`::

    score(q, d) = sum over t in q of idf(t) * f(t, d) * (k1 + 1)
                                     / (f(t, d) + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln((N - n(t) + 0.5) / (n(t) + 0.5)), where that is negative (t is in more than
                  half of the chunks): epsilon * the mean idf of the vocabulary, epsilon = 0.25

A token in exactly half of the chunks has idf 0, and in a small corpus the mean itself may be
negative: then matching chunks score 0 or less, and a search drops them like those without a match.
Source: Trotman, Jia, Crane: Towards an Efficient and Effective Search Engine (2012), as implemented
by the package; only its guard against an empty corpus is added here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.lexical.index_files import load_object, save_json

VERSION = "1"
EPSILON = 0.25

_FILE = "rank_bm25.json"


@dataclass(frozen=True)
class RankBm25Engine:
    """A ``rank_bm25.BM25Okapi`` over the tokens of chunks; None where no chunk has a token."""

    tokens: Sequence[list[str]]
    k1: float
    b: float
    bm25: Any

    @classmethod
    def build(cls, tokens: Sequence[list[str]], k1: float, b: float) -> RankBm25Engine:
        """Index the tokens of each chunk."""
        if not any(tokens):  # the package would divide by 0
            return cls(tokens, k1, b, None)
        from rank_bm25 import BM25Okapi

        return cls(tokens, k1, b, BM25Okapi(tokens, k1=k1, b=b, epsilon=EPSILON))

    @classmethod
    def load(cls, folder: Path) -> RankBm25Engine:
        """Read the tokens back and index them again.

        Raises:
            StoreError: the file is missing or damaged.
        """
        saved = load_object(folder / _FILE, "tokens", "k1", "b")
        return cls.build(saved["tokens"], saved["k1"], saved["b"])

    @property
    def vocabulary_size(self) -> int:
        """Number of distinct tokens."""
        return 0 if self.bm25 is None else len(self.bm25.idf)

    def save(self, folder: Path) -> None:
        """Write tokens and parameters as one JSON file."""
        saved = {"k1": self.k1, "b": self.b, "tokens": list(self.tokens)}
        save_json(folder / _FILE, saved)

    def scores(self, query_tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the score of every chunk, float64, shape (chunks,)."""
        if self.bm25 is None:
            return np.zeros(len(self.tokens))
        known = [token for token in query_tokens if token in self.bm25.idf]
        totals: npt.NDArray[np.float64] = self.bm25.get_scores(known)
        return totals
