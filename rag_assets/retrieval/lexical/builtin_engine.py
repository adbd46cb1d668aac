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

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np

from rag_assets.errors import StoreError
from rag_assets.retrieval.array_folder import ArrayFolder
from rag_assets.retrieval.lexical.bm25_variants import DEFAULT_DELTA
from rag_assets.retrieval.lexical.token_counts import ChunkTokens, TokenCounts, token_runs
from rag_assets.retrieval.lexical.word_engine import WeightedWords
from rag_assets.retrieval.sparse_columns import (
    Floats,
    SparseColumns,
    load_columns,
    save_columns,
)

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

_ARRAYS = ("data.csc.index", "indices.csc.index", "indptr.csc.index")
_VOCABULARY = "vocab.index"
_PARAMETERS = "params.index"
_ABSENT = "nonoccurrence_array.index"


@dataclass(frozen=True)
class BuiltinEngine(WeightedWords):
    """A BM25 index in memory or mapped from its files.

    Attributes:
        k1: saturation of the term frequency.
        b: strength of the length normalisation.
        variant: which formula.
        delta: the parameter of ``bm25l`` and ``bm25plus``.
    """

    k1: float
    b: float
    variant: str = "lucene"
    delta: float | None = None

    @classmethod
    def build(
        cls,
        tokens: ChunkTokens,
        k1: float,
        b: float,
        variant: str = "lucene",
        delta: float | None = None,
    ) -> BuiltinEngine:
        """Index the tokens of chunks; ``delta`` of None is the variant's default."""
        counts = tokens.counts()
        delta = DEFAULT_DELTA.get(variant) if delta is None else delta
        # the mean length of no chunk, or of empty ones, would be nothing to divide by
        data = np.empty(0)
        if counts.vocabulary:
            data = bm25_weights(counts, k1, b, variant, _NO_DELTA if delta is None else delta)
        weights = SparseColumns(data, counts.chunks, counts.indptr, counts.lengths.size)
        return cls(weights, counts.vocabulary, k1, b, variant, delta)

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> BuiltinEngine:
        """Read an index back; ``mmap`` maps the arrays instead of reading them.

        Raises:
            StoreError: a file is missing or damaged.
        """
        files = ArrayFolder(folder)
        keys = ("num_docs", "k1", "b", "delta", "method", "idf_method")
        parameters = files.mapping(_PARAMETERS, keys)
        variant = _variant(parameters["method"], parameters["idf_method"], folder)
        return cls(
            load_columns(files, parameters["num_docs"], _ARRAYS, mmap=mmap),
            files.mapping(_VOCABULARY),
            parameters["k1"],
            parameters["b"],
            variant,
            parameters["delta"] if variant in DEFAULT_DELTA else None,
        )

    def save(self, folder: Path) -> None:
        """Write the index as ``.npy`` and JSON files."""
        files = ArrayFolder(folder)
        save_columns(self.weights, files, _ARRAYS)
        files.save(**{_VOCABULARY: self.vocabulary, _PARAMETERS: self._parameters()})
        if self.variant == "bm25l":  # bm25s wants the score of an absent token
            files.save(**{_ABSENT: np.zeros(len(self.vocabulary))})

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
            "num_docs": self.weights.n_rows,
            "backend": "numpy",
        }


def _variant(method: str, idf_method: str, folder: Path) -> str:
    for variant, names in _METHODS.items():
        if names == (method, idf_method):
            return variant
    raise StoreError(
        f"{folder / _PARAMETERS}.json: no variant has method {method}, idf {idf_method}"
    )


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
