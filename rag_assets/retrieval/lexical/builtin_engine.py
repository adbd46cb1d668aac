"""BM25 as bm25s computes it, with the scores of all (token, chunk) pairs precomputed.

Its default is the variant ``lucene``; :mod:`.lexical.bm25_variants` has the others. For a
query q and a chunk d, with N chunks of which n(t) hold the token t, f(t, d) occurrences of t in d,
|d| tokens in d and avgdl tokens in a chunk on average::

    score(q, d) = sum over t in q of idf(t) * f(t, d) / (f(t, d) + k1 * (1 - b + b * |d| / avgdl))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))            > 0

Source: Kamphuis, de Vries, Boytsov, Lin: Which BM25 Do You Mean? (ECIR 2020), variant "Lucene
(accurate)". Like Lucene from 8.0 on, it lacks the constant factor k1 + 1, which changes no order.
A token that is repeated in the query counts as often as it occurs.

The arrays are a sparse matrix by columns: the entries of token t lie at ``indptr[t]`` to ``indptr[t
+ 1]`` of ``indices`` (chunk) and ``data`` (score). They have the bits that bm25s 0.3.16 computes in
float64 (its default is float32, in which different scores may collapse into ties): the operations
and their order are the same, the logarithm is that of Python for each number of chunks once, and
``bm25l`` loses and gets back the score of an absent token, as it does there. They are computed from
:mod:`.lexical.token_counts`, in parts, so that the arrays in between stay small. The sums are
formed in the order of the query's tokens like in ``bm25s.BM25.get_scores``. The files are named as
bm25s names them: ``bm25s.BM25.load(folder)`` opens the folder.

The methods ``lucene``, ``robertson`` and ``atire`` of bm25s are the variants of these names. Its
``bm25l`` and ``bm25+`` store the difference to the score of an absent token, and add that score to
every chunk: as delta then is in the scores of all chunks, it cannot lift a long one above those
without the token. Here an absent token adds 0, as the authors define it: ``bm25l`` has the
difference put back, and ``bm25plus`` is bm25s's ``atire`` with the idf of ``bm25+``, plus
delta * idf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.errors import StoreError
from rag_assets.ordering import Hits, Positions, best_above_zero
from rag_assets.retrieval.lexical.bm25_variants import DEFAULT_DELTA
from rag_assets.retrieval.lexical.index_files import load_array, load_object, save_json
from rag_assets.retrieval.lexical.sparse_columns import column_sums
from rag_assets.retrieval.lexical.token_counts import TokenCounts, token_runs

Floats = npt.NDArray[np.float64]


_METHODS = {
    "lucene": ("lucene", "lucene"),
    "robertson": ("robertson", "robertson"),
    "atire": ("atire", "atire"),
    "bm25l": ("bm25l", "bm25l"),
    "bm25plus": ("atire", "bm25+"),
}
"""Variant -> what bm25s calls its saturation (``method``) and its idf (``idf_method``)."""


_NO_DELTA = 0.5
"""What bm25s keeps as delta of a variant that has none."""


_DATA = "data.csc.index.npy"


_INDICES = "indices.csc.index.npy"


_INDPTR = "indptr.csc.index.npy"


_VOCABULARY = "vocab.index.json"


_PARAMETERS = "params.index.json"


_ABSENT = "nonoccurrence_array.index.npy"


@dataclass(frozen=True)
class BuiltinEngine:
    """A BM25 index in memory or mapped from its files.

    Attributes:
        data: score of one token in one chunk, float64, shape (entries,).
        indices: the chunk of each entry, int32, shape (entries,).
        indptr: first entry of each token, int64, shape (tokens + 1,).
        vocabulary: token -> its number; numbered in ascending order of the tokens.
        n_chunks: number of chunks.
        k1: saturation of the term frequency.
        b: strength of the length normalisation.
        variant: which formula.
        delta: the parameter of ``bm25l`` and ``bm25plus``.
    """

    data: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    vocabulary: dict[str, int]
    n_chunks: int
    k1: float
    b: float
    variant: str = "lucene"
    delta: float | None = None

    @classmethod
    def build(
        cls,
        counts: TokenCounts,
        k1: float,
        b: float,
        variant: str = "lucene",
        delta: float | None = None,
    ) -> BuiltinEngine:
        """Index the counted tokens; ``delta`` of None is the variant's default."""
        delta = DEFAULT_DELTA.get(variant) if delta is None else delta
        kept = _NO_DELTA if delta is None else delta
        # the mean length of no chunk, or of empty ones, would be nothing to divide by
        data = bm25_weights(counts, k1, b, variant, kept) if counts.vocabulary else np.empty(0)
        arrays = data, counts.chunks, counts.indptr
        return cls(*arrays, counts.vocabulary, counts.lengths.size, k1, b, variant, delta)

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> BuiltinEngine:
        """Read an index back; ``mmap`` maps the arrays instead of reading them.

        Raises:
            StoreError: a file is missing or damaged.
        """
        keys = ("num_docs", "k1", "b", "delta", "method", "idf_method")
        parameters = load_object(folder / _PARAMETERS, *keys)
        variant = _variant(parameters["method"], parameters["idf_method"], folder)
        return cls(
            load_array(folder / _DATA, mmap=mmap),
            load_array(folder / _INDICES, mmap=mmap),
            load_array(folder / _INDPTR, mmap=mmap),
            load_object(folder / _VOCABULARY),
            parameters["num_docs"],
            parameters["k1"],
            parameters["b"],
            variant,
            parameters["delta"] if variant in DEFAULT_DELTA else None,
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
        if self.variant == "bm25l":  # bm25s wants the score of an absent token
            np.save(folder / _ABSENT, np.zeros(len(self.vocabulary)), allow_pickle=False)

    def scores(self, query_tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the score of every chunk, float64, shape (n_chunks,); 0 where no token occurs."""
        known = [self.vocabulary[token] for token in query_tokens if token in self.vocabulary]
        return column_sums(self.data, self.indices, self.indptr, known, self.n_chunks)

    def best(self, queries: Iterable[Sequence[str]], ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield for each query the ``k`` best chunks of those that score above 0."""
        for query in queries:
            yield best_above_zero(self.scores(query), ids_rank, k)

    def _parameters(self) -> dict[str, object]:
        """Return the parameters under the names that bm25s gives them."""
        method, idf_method = _METHODS[self.variant]
        return {
            "k1": self.k1,
            "b": self.b,
            "delta": _NO_DELTA if self.delta is None else self.delta,
            "method": method,
            "idf_method": idf_method,
            "dtype": "float64",
            "int_dtype": "int32",
            "num_docs": self.n_chunks,
            "backend": "numpy",
        }


def _variant(method: str, idf_method: str, folder: Path) -> str:
    for variant, names in _METHODS.items():
        if names == (method, idf_method):
            return variant
    raise StoreError(f"{folder / _PARAMETERS}: no variant has method {method}, idf {idf_method}")


_IDF: dict[str, Callable[[int, int], float]] = {
    "lucene": lambda n, held: log(1 + (n - held + 0.5) / (held + 0.5)),
    "robertson": lambda n, held: log(max(1, (n - held + 0.5) / (held + 0.5))),
    "atire": lambda n, held: log(n / held),
    "bm25l": lambda n, held: log((n + 1) / (held + 0.5)),
    "bm25plus": lambda n, held: log((n + 1) / held),
}
"""Variant -> weight of a token that ``held`` of ``n`` chunks hold."""


def bm25_weights(counts: TokenCounts, k1: float, b: float, variant: str, delta: float) -> Floats:
    """Return the weight of each entry of ``counts``, float64, shape (entries,).

    Args:
        counts: of at least one token.
        k1: saturation of the term frequency, >= 0.
        b: strength of the length normalisation, 0 to 1.
        variant: one of those of engine ``builtin``.
        delta: parameter of ``bm25l`` and ``bm25plus``; others do not look at it.
    """
    n_chunks = counts.lengths.size
    norms = 1 - b + b * counts.lengths / counts.lengths.mean()
    idf, floor = _by_token(counts, k1, variant, delta)
    weights = np.empty(counts.chunks.size)
    for tokens in token_runs(counts.indptr):
        entries = slice(int(counts.indptr[tokens.start]), int(counts.indptr[tokens.stop]))
        held = np.diff(counts.indptr[tokens.start : tokens.stop + 1])
        frequencies = counts.counts[entries].astype(np.float64)
        norm = norms[counts.chunks[entries]]
        part = np.repeat(idf[tokens], held) * _saturation(frequencies, norm, k1, variant, delta)
        if variant == "bm25l":
            absent = np.repeat(floor[tokens], held)
            part = (part - absent) + absent
        if variant == "bm25plus":
            part = part + np.repeat(delta * np.log((n_chunks + 1) / held), held)
        weights[entries] = part
    return weights


def _by_token(counts: TokenCounts, k1: float, variant: str, delta: float) -> tuple[Floats, Floats]:
    """Return the idf of each token, and what ``bm25l`` gives a chunk without it."""
    different, numbers = np.unique(counts.holding, return_inverse=True)
    n_chunks = counts.lengths.size
    each = np.array([_IDF[variant](n_chunks, held) for held in different.tolist()])
    idf = each[numbers]
    if variant != "bm25l":
        return idf, np.zeros(0)
    return idf, idf * (((k1 + 1) * delta) / (k1 + delta))


def _saturation(
    frequencies: Floats, norms: Floats, k1: float, variant: str, delta: float
) -> Floats:
    """Return what the frequency of a token counts."""
    if variant in ("lucene", "robertson"):
        return frequencies / (k1 * norms + frequencies)
    if variant == "bm25l":
        c = frequencies / norms
        return ((k1 + 1) * (c + delta)) / (k1 + c + delta)
    return (frequencies * (k1 + 1)) / (frequencies + k1 * norms)
