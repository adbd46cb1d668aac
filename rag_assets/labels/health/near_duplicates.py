"""Pairs of documents that are nearly the same.

Similarity is Jaccard's: shared shingles (hashed five-word windows) / all shingles of the two.
Candidates come from MinHash (Broder 1997) with banding (Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, section 3.4): 64 hash values a document in 16 bands of 4. A pair of similarity s
shares a band with the chance 1 - (1 - s^4)^16: 0.9998 at 0.8, so about one pair in 5,000 is missed
there, and fewer above. Every candidate is then compared exactly, so no reported pair is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pyarrow as pa

THRESHOLD = 0.8
BANDS = 16
ROWS = 4

ALL_PAIRS_UP_TO = 50
"""In a larger bucket each document is compared with the first 50 only, not with every other."""

WINDOW = 5
"""Words of a shingle."""

_SEED = 20_250_101
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_POWERS = np.cumprod(np.full(WINDOW, _FACTOR))[::-1]
_WORD = re.compile(r"[^\W_]+")


class Pair(NamedTuple):
    """Two rows of the documents, the first smaller, and their similarity."""

    first: int
    second: int
    similarity: float


def near_duplicates(texts: pa.ChunkedArray, threshold: float = THRESHOLD) -> list[Pair]:
    """Return the pairs of texts at least as similar as ``threshold``, sorted by their rows.

    Equal texts are pairs of similarity 1. In a group of more than 50 alike texts each is paired
    with some of the others, not with all.

    Args:
        texts: one text a document.
        threshold: between 0 and 1; below 0.8 more and more pairs are missed.
    """
    sets = {row: own for row, own in enumerate(shingles(texts)) if len(own)}
    if len(sets) < 2:
        return []
    rows = list(sets)
    pairs = {
        tuple(sorted((rows[first], rows[second])))
        for first, second in _candidates(_signatures(list(sets.values())))
    }
    compared = (Pair(a, b, _jaccard(sets[a], sets[b])) for a, b in sorted(pairs))
    return [pair for pair in compared if pair.similarity >= threshold]


def shingles(texts: pa.ChunkedArray) -> Iterator[np.ndarray]:
    """Yield the different shingles of each text: windows of five words in lower case, hashed.

    A text of fewer words is one shingle; a text without words has none.
    """
    hashes: dict[str, int] = {}
    for chunk in texts.chunks:
        for text in chunk.to_pylist():
            words = _WORD.findall(text.lower())
            for word in words:
                if word not in hashes:
                    digest = blake2b(word.encode(), digest_size=8).digest()
                    hashes[word] = int.from_bytes(digest, "little")
            numbers = np.array([hashes[word] for word in words], np.uint64)
            if 0 < len(numbers) < WINDOW:
                numbers = np.append(numbers, np.zeros(WINDOW - len(numbers), np.uint64))
            if len(numbers):
                windows = np.lib.stride_tricks.sliding_window_view(numbers, WINDOW)
                numbers = (windows * _POWERS).sum(axis=1, dtype=np.uint64)
            yield np.unique(numbers)


def _signatures(sets: Sequence[np.ndarray]) -> np.ndarray:
    """Return 64 minima a document, each under another hash function."""
    random = np.random.default_rng(_SEED)
    factors = random.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = random.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64)
    starts = np.cumsum([0, *map(len, sets[:-1])])
    hashes = np.concatenate(sets)
    mixed = hashes ^ (hashes >> np.uint64(25))
    signatures = np.empty((BANDS * ROWS, len(sets)), np.uint32)
    for number, (factor, offset) in enumerate(zip(factors, offsets, strict=True)):
        # Multiply-shift: the upper half of the product is a random function of the shingle.
        values = ((mixed * factor + offset) >> np.uint64(32)).astype(np.uint32)
        signatures[number] = np.minimum.reduceat(values, starts)
    return signatures


def _candidates(signatures: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share a band."""
    for band in signatures.reshape(BANDS, ROWS, -1):
        buckets: dict[bytes, list[int]] = {}
        for number, column in enumerate(np.ascontiguousarray(band.T)):
            buckets.setdefault(column.tobytes(), []).append(number)
        for bucket in buckets.values():
            hubs, rest = bucket[:ALL_PAIRS_UP_TO], bucket[ALL_PAIRS_UP_TO:]
            yield from combinations(hubs, 2)
            yield from product(hubs, rest)


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared)
