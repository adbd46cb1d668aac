"""Pairs of documents that are nearly the same.

Similarity is Jaccard's: shared shingles (hashed five-word windows) / all shingles of the two.
Candidates come from MinHash (Broder 1997) with banding (Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, section 3.4): 64 hash values a document in 16 bands of 4. A pair of similarity s
shares a band with the chance 1 - (1 - s^4)^16: 0.9998 at 0.8, so about one pair in 5,000 is missed
there, and fewer above. Every candidate is then compared exactly, so no reported pair is wrong.

Any two documents can be a pair, wherever they stand: this cannot be done by blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

THRESHOLD = 0.8
BANDS = 16
ROWS = 4

ALL_PAIRS_UP_TO = 50
"""In a larger bucket each document is compared with the first 50 only, not with every other."""


SLACK = 0.25
"""Four standard errors of a similarity that is estimated from 64 hash values, at 0.5."""

_SEED = 20_250_101
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

WINDOW = 5
"""Words of a shingle."""

_OWNER_BITS = np.uint64(13)
_HASH_BITS = np.uint64(51)
BATCH_DOCUMENTS = 1 << int(_OWNER_BITS)
_NO_WORD = r"[^\pL\pN]+"


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
    pairs = []
    for first, second in _likely(signatures, threshold):
        pair = (int(filled[first]), int(filled[second]))
        similarity = _jaccard(sets.of(pair[0]), sets.of(pair[1]))
        if similarity >= threshold:
            pairs.append(Pair(*pair, similarity))
    return sorted(pairs)


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
    parts = [np.empty((0, 2), np.int64)]
    for block in np.array_split(pairs, len(pairs) // 100_000 + 1):
        alike = (signatures[:, block[:, 0]] == signatures[:, block[:, 1]]).mean(axis=0)
        parts.append(block[alike >= threshold - SLACK])
    return np.concatenate(parts)


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


class Shingles(NamedTuple):
    """The shingles of some documents: those of document i are ``hashes[starts[i]:starts[i+1]]``.

    ``hashes`` is uint64, of which 51 bits are used; within a document ascending, no repeats.
    """

    hashes: np.ndarray
    starts: np.ndarray

    def of(self, document: int) -> np.ndarray:
        """Return the shingles of one document."""
        hashes: np.ndarray = self.hashes[self.starts[document] : self.starts[document + 1]]
        return hashes


def shingles(texts: pa.ChunkedArray) -> Shingles:
    """Return the shingles of all texts: windows of five words in lower case, letters and digits.

    A text of fewer words is one shingle; a text without words has none. Two different windows
    have the same 51-bit hash with a chance of 4e-16.
    """
    parts = [_distinct(*_windows(*_words(batch)), len(batch)) for batch in _batches(texts)]
    hashes = np.concatenate([np.empty(0, np.uint64), *(part[0] for part in parts)])
    counts = np.concatenate([np.empty(0, np.int64), *(part[1] for part in parts)])
    return Shingles(hashes, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))


def _batches(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    for start in range(0, len(texts), BATCH_DOCUMENTS):
        yield texts.slice(start, BATCH_DOCUMENTS).combine_chunks()


def _words(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of every word, in order, and how many each text has."""
    lists = pc.split_pattern_regex(pc.utf8_lower(texts), pattern=_NO_WORD)
    owners = pc.list_parent_indices(lists)
    words = pc.list_flatten(lists)
    real = pc.not_equal(words, "")
    owners, words = owners.filter(real), words.filter(real)
    encoded = words.dictionary_encode()
    vocabulary = [
        int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
        for word in encoded.dictionary.to_pylist()
    ]
    hashes = np.array(vocabulary, np.uint64)[encoded.indices.to_numpy(zero_copy_only=False)]
    return hashes, np.bincount(owners.to_numpy(zero_copy_only=False), minlength=len(texts))


def _windows(words: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of every window and the number of its text."""
    # A window that would reach into the next text reads zeros there: only short texts keep one.
    starts = np.cumsum(counts) - counts
    owners = np.repeat(np.arange(len(counts)), counts)
    position = np.arange(len(words)) - starts[owners]
    padded = np.zeros(len(words) + WINDOW, np.uint64)
    padded[: len(words)] = words
    hashes = np.zeros(len(words), np.uint64)
    for offset in range(WINDOW):
        inside = position + offset < counts[owners]
        hashes = hashes * _FACTOR + np.where(inside, padded[offset : offset + len(words)], 0)
    full = position + WINDOW <= counts[owners]
    keep = full | ((position == 0) & (counts[owners] < WINDOW))
    return hashes[keep], owners[keep]


def _distinct(
    hashes: np.ndarray, owners: np.ndarray, n_texts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sort and unite the windows of each text; return them and their number a text."""
    # One sort of integers: the text's number in the upper 13 bits, the hash in the others.
    keys = np.unique((owners.astype(np.uint64) << _HASH_BITS) | (hashes >> _OWNER_BITS))
    counts = np.bincount((keys >> _HASH_BITS).astype(np.int64), minlength=n_texts)
    return keys & ((np.uint64(1) << _HASH_BITS) - np.uint64(1)), counts
