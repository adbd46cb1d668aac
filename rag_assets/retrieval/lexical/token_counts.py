"""The tokens of chunks, block by block, and how often each token occurs in each chunk.

Tokens are kept as numbers of words, in the order of the texts: a block of chunks that did not
change is taken over, and what is counted is counted anew, which takes a tenth of the time that
analysing does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.array_folder import ArrayFolder

TEXTS_AT_ONCE = 4096
"""Chunks whose tokens are in memory as words."""

ENTRIES = 1 << 16
"""Entries that are computed at a time, and those of one token more."""

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Counts = npt.NDArray[np.unsignedinteger]
"""Of the smallest type that holds the largest: mostly one byte each."""


@dataclass(frozen=True)
class TokenCounts:
    """The entries of token t lie at ``indptr[t]`` to ``indptr[t + 1]``, by ascending chunk.

    Attributes:
        vocabulary: token -> its number; numbered in ascending order of the tokens.
        indptr: first entry of each token, int64, shape (tokens + 1,).
        chunks: the chunk of each entry, int32, shape (entries,).
        counts: how often the token occurs in it, shape (entries,).
        lengths: tokens of each chunk, repeated ones counted, int64, shape (chunks,).
    """

    vocabulary: dict[str, int]
    indptr: Longs
    chunks: Ints
    counts: Counts
    lengths: Longs

    @property
    def holding(self) -> Longs:
        """Number of chunks that hold each token, int64, shape (tokens,)."""
        return np.diff(self.indptr)


@dataclass(frozen=True)
class ChunkTokens:
    """The tokens of chunks, one after the other.

    Attributes:
        words: the different tokens, ascending.
        numbers: the place in ``words`` of each token, int32, shape (tokens,).
        lengths: tokens of each chunk, int64, shape (chunks,).
    """

    words: Sequence[str]
    numbers: Ints
    lengths: Longs

    @classmethod
    def of(cls, chunks: Iterable[Sequence[str]]) -> ChunkTokens:
        """Return the tokens of some chunks, which are iterated over once."""
        return cls.joined([chunks])

    @classmethod
    def joined(cls, blocks: Iterable[Iterable[Sequence[str]] | ChunkTokens]) -> ChunkTokens:
        """Return the tokens of blocks of chunks: the tokens of each chunk, or what is stored."""
        places: defaultdict[str, int] = defaultdict()
        places.default_factory = places.__len__  # a new word gets the next number
        numbers, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for block in blocks:
            if isinstance(block, ChunkTokens):
                numbers.append(block._renumbered(places))
                lengths.append(block.lengths)
                continue
            chunks = iter(block)
            while part := [*islice(chunks, TEXTS_AT_ONCE)]:
                lengths.append(np.fromiter(map(len, part), np.int64, len(part)))
                tokens = map(places.__getitem__, chain.from_iterable(part))
                numbers.append(np.fromiter(tokens, np.int32, int(lengths[-1].sum())))
        words = sorted(places)
        final = np.empty(len(words), np.int32)
        final[[places[word] for word in words]] = np.arange(len(words))
        return cls(words, final[np.concatenate(numbers)], np.concatenate(lengths))

    def _renumbered(self, places: defaultdict[str, int]) -> Ints:
        used = np.flatnonzero(np.bincount(self.numbers, minlength=len(self.words)))
        place = np.zeros(len(self.words), np.int32)
        place[used] = [places[self.words[number]] for number in used.tolist()]
        return place[self.numbers]

    @classmethod
    def load(cls, folder: ArrayFolder) -> ChunkTokens:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        numbers, lengths = folder.array("tokens"), folder.array("lengths")
        return cls(folder.texts("words"), numbers, lengths)

    def save(self, folder: ArrayFolder) -> None:
        """Write them as ``.npy`` and JSON files."""
        folder.save(words=list(self.words), tokens=self.numbers, lengths=self.lengths)

    @cached_property
    def starts(self) -> Longs:
        """Where the tokens of each chunk begin, and the end of the last."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])

    def part(self, start: int, end: int) -> ChunkTokens:
        """Return the tokens of the chunks from ``start`` to ``end``."""
        tokens = self.numbers[self.starts[start] : self.starts[end]]
        return ChunkTokens(self.words, tokens, self.lengths[start:end])

    def texts(self) -> Iterator[list[str]]:
        """Yield the tokens of each chunk."""
        for start, end in pairwise(self.starts.tolist()):
            yield [self.words[number] for number in self.numbers[start:end].tolist()]

    def counts(self) -> TokenCounts:
        """Count the tokens of each chunk."""
        by_word = self.matrix().tocsc()
        by_word.sum_duplicates()
        counts = by_word.data.astype(np.min_scalar_type(int(by_word.data.max(initial=0))))
        vocabulary = {word: number for number, word in enumerate(self.words)}
        indptr, chunks = by_word.indptr.astype(np.int64), by_word.indices.astype(np.int32)
        return TokenCounts(vocabulary, indptr, chunks, counts, self.lengths)

    def matrix(self) -> Any:  # noqa: ANN401 (scipy)
        """Return a scipy CSR array with a 1 for each token, shape (chunks, words)."""
        from scipy.sparse import csr_array

        ones = np.ones(self.numbers.size, np.int32)
        shape = (self.lengths.size, len(self.words))
        return csr_array((ones, self.numbers, self.starts), shape=shape)


def token_runs(indptr: Longs) -> Iterator[slice]:
    """Yield runs of tokens with about :data:`ENTRIES` entries each.

    What is computed of them stays in memory that is used again: as much at once for all entries
    would take longer to get from the system than to fill.
    """
    bounds = np.searchsorted(indptr, np.arange(0, indptr[-1], ENTRIES))
    ends = np.unique([*bounds.tolist(), indptr.size - 1]).tolist()
    for start, stop in pairwise(ends):
        yield slice(start, stop)
