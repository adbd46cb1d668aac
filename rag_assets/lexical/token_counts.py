"""How often each token occurs in each chunk, counted in one pass and in bounded memory.

The chunks are taken in blocks. The tokens of a block become numbers, in the order in which they are
seen first; numbers and chunks are packed into one 64-bit key each and sorted, so that equal ones
lie together and can be counted. When the last block has been seen, and so the whole vocabulary, the
entries of each block are moved behind those of the blocks before it, token by token. A sort
within a block stays in the processor's caches, and moving is linear: the cost of a chunk hardly
grows with their number.

Tried on 100,000 made chunks of 60 tokens (see ``benchmarks/lexical.py``): ``bm25s.BM25.index``,
which counts by a ``Counter`` and makes several small arrays for each chunk, takes most of the time
of an index; one sort of all keys at the end needs more memory and is not faster; keeping the lists
of strings until the end needs some 60 bytes for each token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

BLOCK_BITS = 14
BLOCK = 1 << BLOCK_BITS
"""Chunks in a block: about a million tokens, 8 MB of keys."""

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TokenCounts:
    """The entries of token t lie at ``indptr[t]`` to ``indptr[t + 1]``, by ascending chunk.

    Attributes:
        vocabulary: token -> its number; numbered in ascending order of the tokens.
        indptr: first entry of each token, int64, shape (tokens + 1,).
        chunks: the chunk of each entry, int32, shape (entries,).
        counts: how often the token occurs in it, int32, shape (entries,).
        lengths: tokens of each chunk, repeated ones counted, int64, shape (chunks,).
    """

    vocabulary: dict[str, int]
    indptr: Longs
    chunks: Ints
    counts: Ints
    lengths: Longs

    @classmethod
    def of(cls, tokens: Iterable[list[str]]) -> TokenCounts:
        """Count the tokens of each chunk; they are iterated over once."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__  # a new token gets the next number
        lengths, blocks, start = [np.empty(0, np.int64)], [], 0
        for block in _blocks(tokens):
            of_each = np.fromiter(map(len, block), np.int64, len(block))
            seen = map(numbers.__getitem__, chain.from_iterable(block))
            blocks.append(_Block.of(np.fromiter(seen, np.int64, of_each.sum()), of_each, start))
            lengths.append(of_each)
            start += len(block)
        vocabulary = {token: number for number, token in enumerate(sorted(numbers))}
        final = np.fromiter(map(vocabulary.__getitem__, numbers), np.int64, len(vocabulary))
        return cls(vocabulary, *_joined(blocks, final), np.concatenate(lengths))

    @property
    def holding(self) -> Longs:
        """Number of chunks that hold each token, int64, shape (tokens,)."""
        return np.diff(self.indptr)


@dataclass(frozen=True)
class _Block:
    """Entries of some chunks, by token in the order of the first numbers, then by chunk.

    Attributes:
        tokens: the different tokens of the block, int64, shape (different,).
        held: number of entries of each, int64, shape (different,).
        chunks: int32, shape (entries,).
        counts: int32, shape (entries,).
    """

    tokens: Longs
    held: Longs
    chunks: Ints
    counts: Ints

    @classmethod
    def of(cls, numbers: Longs, lengths: Longs, start: int) -> _Block:
        """Count one block; ``start`` is its first chunk."""
        keys = numbers << BLOCK_BITS
        keys |= np.repeat(np.arange(lengths.size), lengths)
        keys.sort()
        first = _starts(keys)
        kept = keys[first]
        chunks = ((kept & (BLOCK - 1)) + start).astype(np.int32)
        of_entries = kept >> BLOCK_BITS
        begins = _starts(of_entries)
        held = np.diff(begins, append=kept.size)
        counts = np.diff(first, append=keys.size).astype(np.int32)
        return cls(of_entries[begins], held, chunks, counts)


def _blocks(tokens: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    rest = iter(tokens)
    while block := list(islice(rest, BLOCK)):
        yield block


def _starts(ascending: Longs) -> Longs:
    """Return where each different value begins."""
    changes: Longs = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    return np.concatenate([np.zeros(min(1, ascending.size), np.int64), changes])


def _joined(blocks: list[_Block], final: Longs) -> tuple[Longs, Ints, Ints]:
    """Return the entries of all blocks by final number of the token; empties ``blocks``."""
    holding = np.zeros(final.size, np.int64)
    for block in blocks:
        holding[final[block.tokens]] += block.held
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(holding)])
    chunks, counts = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int32)
    free = indptr[:-1].copy()
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        tokens = final[block.tokens]
        shift = free[tokens] - (np.cumsum(block.held) - block.held)
        places = np.repeat(shift, block.held)
        places += np.arange(places.size)
        chunks[places], counts[places] = block.chunks, block.counts
        free[tokens] += block.held
    return indptr, chunks, counts
