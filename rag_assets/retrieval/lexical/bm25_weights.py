"""What each token adds to the score of each chunk that holds it, for the variants of BM25.

The formulas are those of :mod:`.lexical.bm25_variants`. The operations and their order
are those of bm25s 0.3.16 in float64, so that the weights have the bits that it computes: the
logarithm is that of Python for each number of chunks once, and ``bm25l`` loses and gets back the
score of an absent token, as it does there. Entries are weighted in parts, so that the arrays in
between stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import log

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.lexical.token_counts import TokenCounts

ENTRIES = 1 << 20
"""Entries that are weighted at a time, and those of one token more."""

Floats = npt.NDArray[np.float64]

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
        variant: one of those of engine ``bm25s``.
        delta: parameter of ``bm25l`` and ``bm25plus``; others do not look at it.
    """
    n_chunks = counts.lengths.size
    norms = 1 - b + b * counts.lengths / counts.lengths.mean()
    idf, floor = _by_token(counts, k1, variant, delta)
    weights = np.empty(counts.chunks.size)
    for tokens in _parts(counts.indptr):
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


def _parts(indptr: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Yield runs of tokens with about :data:`ENTRIES` entries each."""
    bounds = np.searchsorted(indptr, np.arange(0, indptr[-1], ENTRIES))
    ends = np.unique([*bounds.tolist(), indptr.size - 1]).tolist()
    for start, stop in pairwise(ends):
        yield slice(start, stop)
