"""BM25 by bm25s, in Lucene's formula, with the scores of all (token, chunk) pairs precomputed.

For a query q and a chunk d, with N chunks of which n(t) hold the token t, f(t, d) occurrences of t
in d, |d| tokens in d and avgdl tokens in a chunk on average::

    score(q, d) = sum over t in q of idf(t) * f(t, d) / (f(t, d) + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))            > 0

Source: Kamphuis, de Vries, Boytsov, Lin: Which BM25 Do You Mean? (ECIR 2020), variant "Lucene
(accurate)". Like Lucene from 8.0 on, it lacks the constant factor k1 + 1, which changes no order.
A token that is repeated in the query counts as often as it occurs.

The arrays are a sparse matrix by columns: the entries of token t lie at ``indptr[t]`` to
``indptr[t + 1]`` of ``indices`` (chunk) and ``data`` (score). bm25s computes them, here in float64
(its default is float32, in which different scores may collapse into ties); the sums are formed
here, in the order of the query's tokens like in ``bm25s.BM25.get_scores``. The files are named as
bm25s names them: ``bm25s.BM25.load(folder)`` opens the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.lexical.index_files import load_array, load_object, save_json

VERSION = "1"
METHOD = "lucene"

_DATA = "data.csc.index.npy"
_INDICES = "indices.csc.index.npy"
_INDPTR = "indptr.csc.index.npy"
_VOCABULARY = "vocab.index.json"
_PARAMETERS = "params.index.json"


@dataclass(frozen=True)
class Bm25sEngine:
    """A BM25 index in memory or mapped from its files.

    Attributes:
        data: score of one token in one chunk, float64, shape (entries,).
        indices: the chunk of each entry, int32, shape (entries,).
        indptr: first entry of each token, int64, shape (tokens + 1,).
        vocabulary: token -> its number; numbered in ascending order of the tokens.
        n_chunks: number of chunks.
        k1: saturation of the term frequency.
        b: strength of the length normalisation.
    """

    data: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    vocabulary: dict[str, int]
    n_chunks: int
    k1: float
    b: float

    @classmethod
    def build(cls, tokens: Sequence[list[str]], k1: float, b: float) -> Bm25sEngine:
        """Index the tokens of each chunk."""
        names = sorted({token for chunk in tokens for token in chunk})
        vocabulary = {token: number for number, token in enumerate(names)}
        if not vocabulary:  # bm25s would divide by a mean length of 0
            nothing = np.empty(0, np.float64), np.empty(0, np.int32), np.zeros(1, np.int64)
            return cls(*nothing, vocabulary, len(tokens), k1, b)
        import bm25s

        bm25 = bm25s.BM25(k1=k1, b=b, method=METHOD, dtype="float64", int_dtype="int32")
        numbers = [[vocabulary[token] for token in chunk] for chunk in tokens]
        bm25.index((numbers, vocabulary), create_empty_token=False, show_progress=False)
        arrays = bm25.scores["data"], bm25.scores["indices"], bm25.scores["indptr"]
        return cls(*arrays, vocabulary, len(tokens), k1, b)

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> Bm25sEngine:
        """Read an index back; ``mmap`` maps the arrays instead of reading them.

        Raises:
            StoreError: a file is missing or damaged.
        """
        parameters = load_object(folder / _PARAMETERS, "num_docs", "k1", "b")
        return cls(
            load_array(folder / _DATA, mmap=mmap),
            load_array(folder / _INDICES, mmap=mmap),
            load_array(folder / _INDPTR, mmap=mmap),
            load_object(folder / _VOCABULARY),
            parameters["num_docs"],
            parameters["k1"],
            parameters["b"],
        )

    @property
    def vocabulary_size(self) -> int:
        """Number of distinct tokens."""
        return len(self.vocabulary)

    def save(self, folder: Path) -> None:
        """Write the index as ``.npy`` and JSON files."""
        np.save(folder / _DATA, self.data, allow_pickle=False)
        np.save(folder / _INDICES, self.indices, allow_pickle=False)
        np.save(folder / _INDPTR, self.indptr, allow_pickle=False)
        save_json(folder / _VOCABULARY, self.vocabulary)
        save_json(folder / _PARAMETERS, self._parameters())

    def scores(self, query_tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the score of every chunk, float64, shape (n_chunks,); 0 where no token occurs."""
        numbers = [self.vocabulary[token] for token in query_tokens if token in self.vocabulary]
        if not numbers:
            return np.zeros(self.n_chunks)
        entries = [slice(self.indptr[number], self.indptr[number + 1]) for number in numbers]
        chunks = np.concatenate([self.indices[part] for part in entries])
        weights = np.concatenate([self.data[part] for part in entries])
        # adds in the order of the entries, so in the order of the tokens, in one compiled loop
        summed = np.bincount(chunks, weights=weights, minlength=self.n_chunks)
        return summed.astype(np.float64, copy=False)

    def _parameters(self) -> dict[str, object]:
        """Return the parameters under the names that bm25s gives them."""
        return {
            "k1": self.k1,
            "b": self.b,
            "delta": 0.5,
            "method": METHOD,
            "idf_method": METHOD,
            "dtype": "float64",
            "int_dtype": "int32",
            "num_docs": self.n_chunks,
            "backend": "numpy",
        }
