"""``type: tfidf``: lexical retrieval by TF-IDF over analysed words, in four weightings.

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

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from rag_assets.options import Number
from rag_assets.retrieval.array_folder import Floats, Ints
from rag_assets.retrieval.lexical.weighed_word import Weigh
from rag_assets.retrieval.lexical.words import AnalysedRetriever, Repeats, WordIndex, smooth_idf

DEFAULT_K1 = 1.2


class TfIdf(AnalysedRetriever):
    """Lexical retrieval: TF-IDF over analysed words.

    ``weighting: raw`` is the frequency times log10(N / df); ``length_normalised`` divides it by the
    words of the chunk; ``saturated`` takes f / (f + k1) for the frequency f, with ``k1`` 1.2 by
    default; ``sklearn`` is the cosine of scikit-learn's ``TfidfVectorizer``.
    """

    search_kind: ClassVar[str | None] = "tfidf"
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    type: Literal["tfidf"]
    weighting: Literal["raw", "length_normalised", "saturated", "sklearn"] = "sklearn"
    k1: Number | None = Field(default=None, gt=0, validate_default=True)

    @field_validator("k1")
    @classmethod
    def _belongs_to_saturated(cls, k1: float | None, info: ValidationInfo) -> float | None:
        weighting = info.data.get("weighting", "saturated")
        if weighting == "saturated":
            return DEFAULT_K1 if k1 is None else k1
        if k1 is not None:
            raise ValueError(f"k1 is only for weighting saturated, not for {weighting}")
        return k1

    @property
    def repeats(self) -> Repeats:
        return "cosine" if self.weighting == "sklearn" else "multiplied"

    def weigher(self, index: WordIndex) -> Weigh:
        """Return the formula of the weighting, with the statistics of an index."""
        weighting, lengths, k1 = self.weighting, index.lengths, self.k1 or DEFAULT_K1
        norms = _norms(index) if weighting == "sklearn" else np.empty(0)

        def idf(n_holding: int) -> Sequence[float]:
            n, holding = lengths.size, np.array([n_holding])
            is_smooth = weighting == "sklearn"
            numbers = smooth_idf(n, holding) if is_smooth else np.log10(n / holding)
            return [float(numbers[0])]

        def weights(chunks: Ints, counts: Floats, idf: float | Floats) -> Floats:
            if weighting == "sklearn":
                return counts * idf / norms[chunks]
            if weighting == "length_normalised":
                counts = counts / lengths[chunks]
            elif weighting == "saturated":
                counts = counts / (counts + k1)
            return counts * idf

        return Weigh(idf, weights)


def _norms(index: WordIndex) -> Floats:
    """Return the length of the vector of each chunk; its words are added in ascending order."""
    norms = [np.empty(0)]
    for segment, holding in zip(index.segments, index.vocabulary.of_segments, strict=True):
        idf = np.repeat(smooth_idf(index.lengths.size, holding), segment.holding)
        weights = segment.entries.numbers.astype(np.float64) * idf
        squares, n_chunks = weights * weights, segment.chunks.num_rows
        norms.append(np.sqrt(np.bincount(segment.entries.rows, squares, minlength=n_chunks)))
    return np.concatenate(norms)
