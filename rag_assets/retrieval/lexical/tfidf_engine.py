"""TF-IDF over analysed words, in four weightings, with all weights precomputed.

With N chunks of which n(t) hold the token t, f(t, d) occurrences of t in d, |d| tokens in d, a
query q scores a chunk d by the sum, over its tokens, of::

    raw                f(t, d)                  * log10(N / n(t))
    length_normalised  f(t, d) / |d|            * log10(N / n(t))
    saturated          f(t, d) / (f(t, d) + k1) * log10(N / n(t))

where a token that is repeated in the query counts as often as it occurs. A token that all chunks
hold scores 0. ``sklearn`` is the cosine of the vectors that scikit-learn's ``TfidfVectorizer``
gives with its defaults (``smooth_idf``, ``norm="l2"``, no ``sublinear_tf``); tokens that no chunk
holds are left out of the query::

    w(t, x) = f(t, x) * (ln((1 + N) / (1 + n(t))) + 1)
    score   = sum over t of w(t, q) * w(t, d) / (|w(q)| * |w(d)|)

Sources: Sparck Jones: A Statistical Interpretation of Term Specificity (1972) for the idf;
Robertson and Walker: Some Simple Effective Approximations to the 2-Poisson Model (SIGIR 1994) for
f / (f + k1), here without a part for the length; scikit-learn's user guide, "Tf-idf term
weighting".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.array_folder import ArrayFolder
from rag_assets.retrieval.lexical.token_counts import ChunkTokens
from rag_assets.retrieval.lexical.word_engine import WeightedWords
from rag_assets.retrieval.sparse_columns import (
    Floats,
    SparseColumns,
    load_columns,
    save_columns,
)

WEIGHTINGS = ("raw", "length_normalised", "saturated", "sklearn")
DEFAULT_K1 = 1.2


@dataclass(frozen=True)
class TfIdfEngine(WeightedWords):
    """A TF-IDF index in memory or mapped from its files.

    Attributes:
        idf: of each token, float64, shape (tokens,).
        weighting: one of :data:`WEIGHTINGS`.
    """

    idf: Floats
    weighting: str

    @classmethod
    def build(cls, tokens: ChunkTokens, weighting: str, k1: float = DEFAULT_K1) -> TfIdfEngine:
        """Index the tokens of chunks; ``k1`` > 0 is the parameter of ``saturated``."""
        counts = tokens.counts()
        n_chunks, holding, chunks = counts.lengths.size, counts.holding, counts.chunks
        idf = _idf(holding, n_chunks, weighting)
        lengths = counts.lengths.astype(np.float64)
        frequencies = counts.counts.astype(np.float64)
        data = _saturation(frequencies, lengths[chunks], weighting, k1) * np.repeat(idf, holding)
        if weighting == "sklearn":
            norms = np.sqrt(np.bincount(chunks, weights=data * data, minlength=n_chunks))
            data = data / norms[chunks]
        weights = SparseColumns(data, chunks, counts.indptr, n_chunks)
        return cls(weights, counts.vocabulary, idf, weighting)

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> TfIdfEngine:
        """Read an index back; ``mmap`` maps the arrays instead of reading them.

        Raises:
            StoreError: a file is missing or damaged.
        """
        files = ArrayFolder(folder)
        parameters = files.mapping("tfidf", ["chunks", "weighting"])
        weights = load_columns(files, parameters["chunks"], mmap=mmap)
        idf = files.array("idf", mmap=mmap)
        return cls(weights, files.mapping("vocabulary"), idf, parameters["weighting"])

    def save(self, folder: Path) -> None:
        """Write the index as ``.npy`` and JSON files."""
        files = ArrayFolder(folder)
        save_columns(self.weights, files)
        parameters = {"chunks": self.weights.n_rows, "weighting": self.weighting}
        files.save(idf=self.idf, vocabulary=self.vocabulary, tfidf=parameters)

    def scores(self, query_tokens: Sequence[str]) -> Floats:
        """Return the sum of the weights, of ``sklearn`` the cosine, in every chunk."""
        counts = Counter(self.columns_of(query_tokens))  # in the order in which tokens occur first
        factors = np.array(list(counts.values()), dtype=np.float64)
        if self.weighting == "sklearn" and counts:
            factors *= self.idf[list(counts)]
            factors /= np.sqrt(np.sum(factors * factors))
        return self.weights.sums(list(counts), factors.tolist())


def _idf(holding: npt.NDArray[np.int64], n_chunks: int, weighting: str) -> Floats:
    if weighting == "sklearn":
        smooth: Floats = np.log((1 + n_chunks) / (1 + holding)) + 1
        return smooth
    plain: Floats = np.log10(n_chunks / holding)
    return plain


def _saturation(counts: Floats, lengths: Floats, weighting: str, k1: float) -> Floats:
    """Return what the frequency of a token in a chunk counts."""
    if weighting == "length_normalised":
        return counts / lengths
    if weighting == "saturated":
        return counts / (counts + k1)
    return counts
