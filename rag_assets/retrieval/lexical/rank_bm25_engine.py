"""BM25 by rank-bm25: the reference implementation, exact but slow; for small corpora.

Its default is the variant ``okapi``, the package's ``BM25Okapi``. With the symbols of
:mod:`rag_assets.retrieval.lexical.builtin_engine`::

    score(q, d) = sum over t in q of idf(t) * f(t, d) * (k1 + 1)
                                     / (f(t, d) + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln((N - n(t) + 0.5) / (n(t) + 0.5)), where that is negative (t is in more than
                  half of the chunks): epsilon * the mean idf of the vocabulary, epsilon = 0.25

A token in exactly half of the chunks has idf 0, and in a small corpus the mean itself may be
negative: then matching chunks score 0 or less, and a search drops them like those without a match.
Source: Trotman, Jia, Crane: Towards an Efficient and Effective Search Engine (2012), as implemented
by the package; only guards are added here: against an empty corpus, and a token adds only to the
scores of chunks that hold it.

The variant ``bm25plus`` is the package's ``BM25Plus``; the package gives delta to chunks without
the token too, so that every chunk of a corpus would be a hit. Its ``BM25L`` is refused: it
multiplies what a token adds by its frequency once more than Lv and Zhai's formula does, so that
long chunks win. Engine ``builtin`` has the formula as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.array_folder import ArrayFolder
from rag_assets.retrieval.lexical.bm25_variants import DEFAULT_DELTA
from rag_assets.retrieval.lexical.token_counts import ChunkTokens
from rag_assets.retrieval.lexical.word_engine import WordEngine

EPSILON = 0.25

_FILE = "rank_bm25"
_CLASSES = {"okapi": "BM25Okapi", "bm25plus": "BM25Plus"}
"""Variant -> the class of the package."""


@dataclass(frozen=True)
class RankBm25Engine(WordEngine):
    """An object of the package over the tokens of chunks; None where no chunk has a token."""

    tokens: Sequence[list[str]]
    k1: float
    b: float
    bm25: Any
    variant: str = "okapi"
    delta: float | None = None

    @classmethod
    def build(
        cls,
        tokens: ChunkTokens,
        k1: float,
        b: float,
        variant: str = "okapi",
        delta: float | None = None,
    ) -> RankBm25Engine:
        """Index the tokens of chunks; ``delta`` of None is the variant's default."""
        return cls._of([*tokens.texts()], k1, b, variant, delta)

    @classmethod
    def _of(
        cls, tokens: Sequence[list[str]], k1: float, b: float, variant: str, delta: float | None
    ) -> RankBm25Engine:
        delta = DEFAULT_DELTA.get(variant) if delta is None else delta
        if not any(tokens):  # the package would divide by 0
            return cls(tokens, k1, b, None, variant, delta)
        import rank_bm25

        own = {"epsilon": EPSILON} if variant == "okapi" else {"delta": delta}
        bm25 = getattr(rank_bm25, _CLASSES[variant])(tokens, k1=k1, b=b, **own)
        return cls(tokens, k1, b, bm25, variant, delta)

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> RankBm25Engine:
        """Read the tokens back and index them again.

        Raises:
            StoreError: the file is missing or damaged.
        """
        saved = ArrayFolder(folder).mapping(_FILE, ["tokens", "k1", "b"])
        variant, delta = saved.get("variant", "okapi"), saved.get("delta")
        return cls._of(saved["tokens"], saved["k1"], saved["b"], variant, delta)

    @property
    def vocabulary_size(self) -> int:
        """Number of distinct tokens."""
        return 0 if self.bm25 is None else len(self.bm25.idf)

    def save(self, folder: Path) -> None:
        """Write tokens and parameters as one JSON file."""
        own = {} if self.variant == "okapi" else {"variant": self.variant, "delta": self.delta}
        saved = {"k1": self.k1, "b": self.b, **own, "tokens": list(self.tokens)}
        ArrayFolder(folder).save(**{_FILE: saved})

    def scores(self, query_tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the score of every chunk, float64, shape (chunks,)."""
        totals = np.zeros(len(self.tokens))
        if self.bm25 is None:
            return totals
        for token in query_tokens:
            if token not in self.bm25.idf:
                continue
            holds = np.array([token in frequencies for frequencies in self.bm25.doc_freqs])
            with np.errstate(invalid="ignore"):  # 0 / 0 where a token is absent and k1 is 0
                totals += np.where(holds, self.bm25.get_scores([token]), 0.0)
        return totals
