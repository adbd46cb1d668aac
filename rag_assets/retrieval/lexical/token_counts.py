"""How often each token occurs in each chunk, counted in one pass and in bounded memory.

The chunks are taken in slices. The tokens of a slice become numbers, in the order in which they are
seen first; numbers and chunks are packed into one 64-bit key each and sorted, so that equal ones
lie together and can be counted. Slices are merged: their tokens get the numbers of all, and when
the last slice has been seen, and so the whole vocabulary, the entries of each are moved behind
those of the slices before it, token by token. A sort within a slice stays in the processor's
caches, and moving is linear: the cost of a chunk hardly grows with their number. What a slice
counts depends on its chunks alone, so one that did not change need not be counted again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.lexical.index_files import load_array, load_list, save_json

SLICE = 1 << 14
"""Chunks that are counted together: about a million tokens, 8 MB of keys."""

ENTRIES = 1 << 16
"""Entries that are computed at a time, and those of one token more."""

TEXTS_AT_ONCE = 4096
"""Chunks whose tokens are put together again at a time."""

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Counts = npt.NDArray[np.unsignedinteger]
"""Of the smallest type that holds the largest: mostly one byte each."""

_VOCABULARY = "counts.vocabulary.json"
_ARRAYS = ("indptr", "chunks", "counts", "lengths", "seen")
_BLOCK_SIZES, _BLOCK_TOKENS = "block_sizes", "block_tokens"


@dataclass(frozen=True)
class SliceCounts:
    """The entries of some chunks, by token in the order of ``tokens``, then by chunk.

    Attributes:
        vocabulary: the different tokens, in the order in which they are seen first.
        tokens: places in the vocabulary, in the order of the entries, int64, shape (tokens,).
        held: number of entries of each of them, int64, shape (tokens,).
        chunks: the chunk of each entry, from 0 within the slice, int32, shape (entries,).
        counts: how often the token occurs in it, shape (entries,).
        lengths: tokens of each chunk, repeated ones counted, int64, shape (chunks,).
        blocks: of each block of chunks, the places of its tokens in the vocabulary, in the order in
            which they are seen first in it; int64.
    """

    vocabulary: Sequence[str]
    tokens: Longs
    held: Longs
    chunks: Ints
    counts: Counts
    lengths: Longs
    blocks: Sequence[Longs]

    @classmethod
    def of(cls, tokens: Sequence[list[str]]) -> SliceCounts:
        """Count the tokens of each chunk of a slice."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__  # a new token gets the next number
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        seen = map(numbers.__getitem__, chain.from_iterable(tokens))
        keys = np.fromiter(seen, np.int64, int(lengths.sum()))
        bits = len(tokens).bit_length()
        keys <<= bits
        keys |= np.repeat(np.arange(lengths.size), lengths)
        keys.sort()
        first = _starts(keys)
        kept = keys[first]
        held = np.bincount(kept >> bits, minlength=len(numbers))
        chunks = (kept & ((1 << bits) - 1)).astype(np.int32)
        counts = np.diff(first, append=keys.size)
        places = np.arange(len(numbers))
        return cls(list(numbers), places, held, chunks, _smallest(counts), lengths, [places])


@dataclass(frozen=True)
class TokenCounts:
    """The entries of token t lie at ``indptr[t]`` to ``indptr[t + 1]``, by ascending chunk.

    Attributes:
        vocabulary: token -> its number; numbered in ascending order of the tokens.
        indptr: first entry of each token, int64, shape (tokens + 1,).
        chunks: the chunk of each entry, int32, shape (entries,).
        counts: how often the token occurs in it, shape (entries,).
        lengths: tokens of each chunk, repeated ones counted, int64, shape (chunks,).
        seen: place of each token in the order in which they are seen first, int32, shape (tokens,).
        blocks: of each block of chunks, its tokens in the order in which they are seen first in it,
            int32: with them a block can be taken out again.
    """

    vocabulary: dict[str, int]
    indptr: Longs
    chunks: Ints
    counts: Counts
    lengths: Longs
    seen: Ints
    blocks: Sequence[Ints] = ()

    @classmethod
    def of(cls, tokens: Iterable[list[str]]) -> TokenCounts:
        """Count the tokens of each chunk; they are iterated over once."""
        rest = iter(tokens)
        slices = iter(lambda: list(islice(rest, SLICE)), [])
        return cls.merged(map(SliceCounts.of, slices))

    @classmethod
    def merged(cls, slices: Iterable[SliceCounts]) -> TokenCounts:
        """Return the counts of all chunks of some slices, one after the other.

        The slices are iterated over once, and the words of none but the last are kept.
        """
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        lengths, parts, start = [np.empty(0, np.int64)], [], 0
        blocks: list[Longs] = []
        for one in slices:
            known = map(numbers.__getitem__, one.vocabulary)
            tokens = np.fromiter(known, np.int64, len(one.vocabulary))
            parts.append(_Part(tokens[one.tokens], one.held, one.chunks, one.counts, start))
            blocks += [tokens[block] for block in one.blocks]
            lengths.append(one.lengths)
            start += one.lengths.size
        vocabulary = {token: number for number, token in enumerate(sorted(numbers))}
        final = np.fromiter(map(vocabulary.__getitem__, numbers), np.int64, len(vocabulary))
        seen = np.empty(final.size, np.int32)
        seen[final] = np.arange(final.size)
        entries = _joined(parts, final)
        first_seen = [final[block].astype(np.int32) for block in blocks]
        return cls(vocabulary, *entries, np.concatenate(lengths), seen, first_seen)

    @classmethod
    def load(cls, folder: Path) -> TokenCounts:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        words = load_list(folder / _VOCABULARY)
        vocabulary = {token: number for number, token in enumerate(words)}
        arrays = {one: load_array(_file(folder, one), mmap=True) for one in _ARRAYS}
        sizes = load_array(_file(folder, _BLOCK_SIZES), mmap=False)
        tokens = load_array(_file(folder, _BLOCK_TOKENS), mmap=True)
        return cls(vocabulary, blocks=np.split(tokens, np.cumsum(sizes)[:-1]), **arrays)

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        save_json(folder / _VOCABULARY, list(self.vocabulary))
        for name in _ARRAYS:
            np.save(_file(folder, name), getattr(self, name), allow_pickle=False)
        sizes = np.array([block.size for block in self.blocks], np.int64)
        tokens = np.concatenate([np.empty(0, np.int32), *self.blocks])
        np.save(_file(folder, _BLOCK_SIZES), sizes, allow_pickle=False)
        np.save(_file(folder, _BLOCK_TOKENS), tokens, allow_pickle=False)

    def taken(self, start: int, end: int, blocks: Sequence[Ints]) -> SliceCounts:
        """Return the counts of the chunks from ``start`` to ``end``, which are these ``blocks``."""
        held = np.zeros(len(self.vocabulary), np.int64)
        chunks, counts = [np.empty(0, np.int32)], [self.counts[:0]]
        for some in token_runs(self.indptr):
            bounds = self.indptr[some.start : some.stop + 1]
            entries = slice(int(bounds[0]), int(bounds[-1]))
            moved = self.chunks[entries] - np.int32(start)
            inside = np.flatnonzero(moved.view(np.uint32) < end - start)
            held[some] = np.diff(np.searchsorted(inside, bounds - bounds[0]))
            chunks.append(moved[inside])
            counts.append(self.counts[entries][inside])
        tokens = np.flatnonzero(held)
        together = np.concatenate(blocks)
        first = np.sort(np.unique(together, return_index=True)[1])
        place = np.empty(len(self.vocabulary), np.int64)
        place[together[first]] = np.arange(first.size)
        return SliceCounts(
            [self._words[token] for token in together[first].tolist()],
            place[tokens],
            held[tokens],
            np.concatenate(chunks),
            _smallest(np.concatenate(counts)),
            self.lengths[start:end],
            [place[block] for block in blocks],
        )

    @cached_property
    def _words(self) -> list[str]:
        return list(self.vocabulary)

    @property
    def holding(self) -> Longs:
        """Number of chunks that hold each token, int64, shape (tokens,)."""
        return np.diff(self.indptr)

    @cached_property
    def by_chunk(self) -> tuple[Longs, Longs]:
        """The entries by chunk and then by token: their numbers, and where each chunk begins."""
        held = np.bincount(self.chunks, minlength=self.lengths.size)
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(held)])
        return np.argsort(self.chunks, kind="stable"), first

    def tokens_of(self, entries: Longs) -> Longs:
        """Return the number of the token of some entries."""
        return np.searchsorted(self.indptr, entries, side="right") - 1

    def texts(self) -> Iterator[list[str]]:
        """Yield the tokens of each chunk, equal ones together, in the order of ``seen``.

        Over all chunks every token is so seen first in the order in which it was.
        """
        words = self._words
        order, first = self.by_chunk
        for start in range(0, self.lengths.size, TEXTS_AT_ONCE):
            ends = first[start : start + TEXTS_AT_ONCE + 1]
            entries = order[ends[0] : ends[-1]]
            tokens = self.tokens_of(entries)
            entries = entries[np.lexsort((self.seen[tokens], self.chunks[entries]))]
            counts = self.counts[entries]
            found = np.repeat(self.tokens_of(entries), counts).tolist()
            bounds = np.cumsum(self.lengths[start : start + TEXTS_AT_ONCE])
            begin = 0
            for end in bounds.tolist():
                yield [words[token] for token in found[begin:end]]
                begin = end


class _Part(NamedTuple):
    """The entries of a slice by the numbers of all tokens; ``start`` is its first chunk."""

    tokens: Longs
    held: Longs
    chunks: Ints
    counts: Counts
    start: int


def token_runs(indptr: Longs) -> Iterator[slice]:
    """Yield runs of tokens with about :data:`ENTRIES` entries each.

    What is computed of them stays in memory that is used again: as much at once for all entries
    would take longer to get from the system than to fill.
    """
    bounds = np.searchsorted(indptr, np.arange(0, indptr[-1], ENTRIES))
    ends = np.unique([*bounds.tolist(), indptr.size - 1]).tolist()
    for start, stop in pairwise(ends):
        yield slice(start, stop)


def _starts(ascending: Longs) -> Longs:
    """Return where each different value begins."""
    changes: Longs = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    return np.concatenate([np.zeros(min(1, ascending.size), np.int64), changes])


def _smallest(counts: npt.NDArray[np.integer]) -> Counts:
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def _file(folder: Path, name: str) -> Path:
    return folder / f"counts.{name}.npy"


def _joined(parts: list[_Part], final: Longs) -> tuple[Longs, Ints, Counts]:
    """Return the entries of all slices by final number of the token; empties ``parts``."""
    holding = np.zeros(final.size, np.int64)
    for part in parts:
        holding[final[part.tokens]] += part.held
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(holding)])
    smallest = np.result_type(np.uint8, *(part.counts for part in parts))
    chunks, counts = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], smallest)
    free = indptr[:-1].copy()
    parts.reverse()
    while parts:
        part = parts.pop()
        tokens = final[part.tokens]
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(part.held)])
        shift = free[tokens] - first[:-1]
        for some in token_runs(first):
            entries = slice(int(first[some.start]), int(first[some.stop]))
            places = np.repeat(shift[some], part.held[some])
            places += np.arange(entries.start, entries.stop)
            chunks[places] = part.chunks[entries] + np.int32(part.start)
            counts[places] = part.counts[entries]
        free[tokens] += part.held
    return indptr, chunks, counts
