"""Texts as sets of hashed five-word windows."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WINDOW = 5
"""Words of a shingle."""

_OWNER_BITS = np.uint64(13)
_HASH_BITS = np.uint64(51)
BATCH_DOCUMENTS = 1 << int(_OWNER_BITS)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of a word is lost
_NO_WORD = r"[^\pL\pN]+"


class Shingles(NamedTuple):
    """The shingles of some documents: those of document i are ``hashes[starts[i]:starts[i+1]]``.

    ``hashes`` is uint64, of which 51 bits are used; within a document ascending, no repeats.
    """

    hashes: np.ndarray
    starts: np.ndarray

    def of(self, document: int) -> np.ndarray:
        """Return the shingles of one document."""
        found: np.ndarray = self.hashes[self.starts[document] : self.starts[document + 1]]
        return found


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
