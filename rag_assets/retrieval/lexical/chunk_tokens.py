"""The tokens of chunks as numbers of words, and their counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from rag_assets.retrieval.array_folder import (
    CHUNKS,
    TERMS,
    ArrayFolder,
    Entries,
    Ints,
    Longs,
    Segment,
    numbers_of,
    table_of,
)

TOKENS = "tokens"
"""The table of the tokens of a segment's chunks, one after the other."""

TOKENS_AT_ONCE = 1 << 20


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
    def joined(cls, blocks: Iterable[Sequence[Sequence[str]] | ChunkTokens]) -> ChunkTokens:
        """Return the tokens of blocks of chunks: the tokens of each chunk, or what is stored."""
        places: defaultdict[str, int] = defaultdict()
        places.default_factory = places.__len__  # a new word gets the next number
        numbers, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for block in blocks:
            if isinstance(block, ChunkTokens):
                numbers.append(block._renumbered(places))
                lengths.append(block.lengths)
                continue
            lengths.append(np.fromiter(map(len, block), np.int64, len(block)))
            tokens = map(places.__getitem__, chain.from_iterable(block))
            numbers.append(np.fromiter(tokens, np.int32, int(lengths[-1].sum())))
        words = sorted(places)
        final = np.empty(len(words), np.int32)
        final[[places[word] for word in words]] = np.arange(len(words))
        return cls(words, final[np.concatenate(numbers)], np.concatenate(lengths))

    @classmethod
    def load(cls, files: ArrayFolder, end: str) -> ChunkTokens:
        """Read those of a segment, whose tables have names that end so."""
        words = files.table(f"{TERMS}{end}", ["term"]).column("term").to_pylist()
        numbers = numbers_of(files.table(f"{TOKENS}{end}"), "number")
        return cls(words, numbers, numbers_of(files.table(f"{CHUNKS}{end}", ["length"]), "length"))

    def _renumbered(self, places: defaultdict[str, int]) -> Ints:
        used = np.flatnonzero(np.bincount(self.numbers, minlength=len(self.words)))
        place = np.zeros(len(self.words), np.int32)
        place[used] = [places[self.words[number]] for number in used.tolist()]
        return place[self.numbers]

    @cached_property
    def starts(self) -> Longs:
        """Where the tokens of each chunk begin, and the end of the last."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])

    def part(self, start: int, end: int) -> ChunkTokens:
        """Return the tokens of the chunks from ``start`` to ``end``."""
        tokens = self.numbers[self.starts[start] : self.starts[end]]
        return ChunkTokens(self.words, tokens, self.lengths[start:end])

    def of_chunk(self, chunk: int) -> list[str]:
        """Return the tokens of one chunk."""
        return [self.words[number] for number in self.part(chunk, chunk + 1).numbers.tolist()]

    def counts(self, chunk_ids: Sequence[str]) -> Segment:
        """Count the tokens of each chunk, a column a word; ``first`` is where it first stands."""
        from scipy.sparse import csr_array

        size, longest = self.numbers.size, int(self.lengths.max(initial=0))
        ones = np.ones(size, np.min_scalar_type(longest))
        shape = (self.lengths.size, len(self.words))
        by_word = csr_array((ones, self.numbers, self.starts), shape=shape).tocsc()
        by_word.sum_duplicates()
        counts = by_word.data.astype(np.min_scalar_type(int(by_word.data.max(initial=0))))
        first = np.empty(len(self.words), np.int64)
        for start in reversed(range(0, size, TOKENS_AT_ONCE)):
            part = self.numbers[start : start + TOKENS_AT_ONCE]
            first[part[::-1]] = np.arange(start, start + part.size)[::-1]  # the last value stays
        holding = np.diff(by_word.indptr.astype(np.int64))
        words = pa.array(self.words, pa.string())
        return Segment(
            table_of(chunk_id=pa.array(chunk_ids, pa.string()), length=self.lengths),
            table_of(term=words, document_frequency=holding, first=first),
            Entries(by_word.indices.astype(np.int32, copy=False), counts),
        )
