"""Pairs of documents that are nearly the same.

Similarity is Jaccard's: shared five-word shingles / all shingles of the two. Candidates come from
MinHash (Broder 1997) with banding (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets,
section 3.4): 64 hash values a document in 16 bands of 4. A pair of similarity s shares a band with
the chance 1 - (1 - s^4)^16: 0.9998 at 0.8, so about one pair in 5,000 is missed there, and fewer
above. Every candidate is then compared exactly, so no reported pair is wrong.

Any two documents can be a pair, wherever they stand: this cannot be done by blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.labels.health.shingles import Shingles, shingles

THRESHOLD = 0.8
BANDS = 16
ROWS = 4
ALL_PAIRS_UP_TO = 50
"""In a larger bucket each document is compared with the first 50 only, not with every other."""

SLACK = 0.25
"""Four standard errors of a similarity that is estimated from 64 hash values, at 0.5."""

_SEED = 20_250_101
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


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
    sets = shingles(texts)
    sizes = np.diff(sets.starts)
    filled = np.flatnonzero(sizes)
    if len(filled) < 2:
        return []
    signatures = _signatures(sets, filled)
    found = []
    for first, second in _likely(signatures, threshold):
        pair = (int(filled[first]), int(filled[second]))
        similarity = _jaccard(sets.of(pair[0]), sets.of(pair[1]))
        if similarity >= threshold:
            found.append(Pair(*pair, similarity))
    return sorted(found)


def _signatures(sets: Shingles, filled: np.ndarray) -> np.ndarray:
    """Return 64 minima a document that has shingles, each under another hash function."""
    random = np.random.default_rng(_SEED)
    factors = random.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = random.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64)
    starts = sets.starts[:-1][filled]
    signatures = np.empty((BANDS * ROWS, len(filled)), np.uint32)
    mixed = sets.hashes ^ (sets.hashes >> np.uint64(25))
    for number, (factor, offset) in enumerate(zip(factors, offsets, strict=True)):
        # Multiply-shift: the upper half of the product is a random function of the shingle.
        values = ((mixed * factor + offset) >> np.uint64(32)).astype(np.uint32)
        signatures[number] = np.minimum.reduceat(values, starts)
    return signatures


def _likely(signatures: np.ndarray, threshold: float) -> np.ndarray:
    """Return the pairs that share a band and whose signatures look similar enough."""
    pairs = np.concatenate([np.empty((0, 2), np.int64), *_candidates(signatures)])
    pairs = np.unique(pairs, axis=0)
    kept = [np.empty((0, 2), np.int64)]
    for block in np.array_split(pairs, len(pairs) // 100_000 + 1):
        alike = (signatures[:, block[:, 0]] == signatures[:, block[:, 1]]).mean(axis=0)
        kept.append(block[alike >= threshold - SLACK])
    return np.concatenate(kept)


def _candidates(signatures: np.ndarray) -> Iterator[np.ndarray]:
    for band in range(BANDS):
        keys = np.zeros(signatures.shape[1], np.uint64)
        for row in signatures[band * ROWS : (band + 1) * ROWS]:
            keys = keys * _FACTOR + row
        order = np.argsort(keys, kind="stable")
        edges = np.concatenate([[0], np.flatnonzero(np.diff(keys[order])) + 1, [len(order)]])
        for bucket in np.flatnonzero(np.diff(edges) > 1):
            yield _pairs(order[edges[bucket] : edges[bucket + 1]])


def _pairs(bucket: np.ndarray) -> np.ndarray:
    if len(bucket) == 2:
        return bucket[None, :]
    hubs = bucket[:ALL_PAIRS_UP_TO]
    left, right = np.triu_indices(len(hubs), 1)
    pairs = [np.stack([hubs[left], hubs[right]], axis=1)]
    rest = bucket[ALL_PAIRS_UP_TO:]
    if len(rest):
        pairs.append(np.stack([np.tile(hubs, len(rest)), np.repeat(rest, len(hubs))], axis=1))
    return np.concatenate(pairs)


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared)
