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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.errors import UsageError, allowed_names
from rag_assets.ordering import Hits, Positions, best_above_zero
from rag_assets.retrieval.lexical.index_files import load_array, load_object, save_json
from rag_assets.retrieval.lexical.sparse_columns import column_sums
from rag_assets.retrieval.lexical.token_counts import TokenCounts

WEIGHTINGS = ("raw", "length_normalised", "saturated", "sklearn")
DEFAULT_K1 = 1.2

_DATA = "weights.npy"
_INDICES = "chunks.npy"
_INDPTR = "first_entries.npy"
_IDF = "idf.npy"
_VOCABULARY = "vocabulary.json"
_PARAMETERS = "tfidf.json"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TfIdfEngine:
    """A TF-IDF index in memory or mapped from its files.

    Attributes:
        data: weight of one token in one chunk, float64, shape (entries,).
        indices: the chunk of each entry, int32, shape (entries,).
        indptr: first entry of each token, int64, shape (tokens + 1,).
        idf: of each token, float64, shape (tokens,).
        vocabulary: token -> its number; numbered in ascending order of the tokens.
        n_chunks: number of chunks.
        weighting: one of :data:`WEIGHTINGS`.
    """

    data: Floats
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    idf: Floats
    vocabulary: dict[str, int]
    n_chunks: int
    weighting: str

    @classmethod
    def build(cls, counts: TokenCounts, weighting: str, k1: float = DEFAULT_K1) -> TfIdfEngine:
        """Index the counted tokens; ``k1`` > 0 is the parameter of ``saturated``.

        Raises:
            UsageError: there is no such weighting, or ``k1`` is not above 0.
        """
        if weighting not in WEIGHTINGS:
            raise UsageError(f"weighting {allowed_names(weighting, WEIGHTINGS)}")
        if not k1 > 0:
            raise UsageError(f"k1 is {k1}; must be above 0")
        n_chunks, holding, indices = counts.lengths.size, counts.holding, counts.chunks
        idf = _idf(holding, n_chunks, weighting)
        lengths = counts.lengths.astype(np.float64)
        frequencies = counts.counts.astype(np.float64)
        data = _saturation(frequencies, lengths[indices], weighting, k1) * np.repeat(idf, holding)
        if weighting == "sklearn":
            norms = np.sqrt(np.bincount(indices, weights=data * data, minlength=n_chunks))
            data = data / norms[indices]
        return cls(data, indices, counts.indptr, idf, counts.vocabulary, n_chunks, weighting)

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> TfIdfEngine:
        """Read an index back; ``mmap`` maps the arrays instead of reading them.

        Raises:
            StoreError: a file is missing or damaged.
        """
        parameters = load_object(folder / _PARAMETERS, "chunks", "weighting")
        return cls(
            load_array(folder / _DATA, mmap=mmap),
            load_array(folder / _INDICES, mmap=mmap),
            load_array(folder / _INDPTR, mmap=mmap),
            load_array(folder / _IDF, mmap=mmap),
            load_object(folder / _VOCABULARY),
            parameters["chunks"],
            parameters["weighting"],
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
        np.save(folder / _IDF, self.idf, allow_pickle=False)
        save_json(folder / _VOCABULARY, self.vocabulary)
        save_json(folder / _PARAMETERS, {"chunks": self.n_chunks, "weighting": self.weighting})

    def scores(self, query_tokens: Sequence[str]) -> Floats:
        """Return the score of every chunk, float64, shape (n_chunks,); 0 where no token occurs."""
        known = [self.vocabulary[token] for token in query_tokens if token in self.vocabulary]
        counts = Counter(known)  # keeps the order in which tokens occur first
        factors = np.array(list(counts.values()), dtype=np.float64)
        if self.weighting == "sklearn" and known:
            factors *= self.idf[list(counts)]
            factors /= np.sqrt(np.sum(factors * factors))
        return column_sums(
            self.data, self.indices, self.indptr, list(counts), self.n_chunks, factors.tolist()
        )

    def best(self, queries: Iterable[Sequence[str]], ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield for each query the ``k`` best chunks of those that score above 0."""
        for query in queries:
            yield best_above_zero(self.scores(query), ids_rank, k)


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
