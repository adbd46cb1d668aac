"""The tokens of chunks as a folder, from which every index over the same words is put together.

Tokens are kept as numbers of words, in the order of the texts. A block of chunks whose texts did
not change is taken over; what is counted is counted anew, in a tenth of the time of analysing.
Chunks are kept in ascending order of their ids: the same chunks give the same files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.errors import DataError
from rag_assets.ordering import byte_order_ranks
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder, SparseIndex
from rag_assets.retrieval.lexical.analyzers import analyze_all, resolve_analyzer
from rag_assets.store.artifacts import Block
from rag_assets.store.blocks import block_ends, records_digest

TEXTS_AT_ONCE = 4096
"""Texts that are analysed together: the tokens of all would take many times their memory."""

_BLOCKS = "blocks"
BLOCKS_FILE = f"{_BLOCKS}.json"
"""Digests of texts, for the next analysis; other texts of the same words change this file alone."""

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


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

    @classmethod
    def load(cls, files: ArrayFolder, prefix: str = "") -> ChunkTokens:
        """Read them back; arrays are mapped."""
        arrays = (files.array(f"{prefix}{name}") for name in ("tokens", "lengths"))
        return cls(files.texts(f"{prefix}words"), *arrays)

    def save(self, files: ArrayFolder, prefix: str = "") -> None:
        """Write words, tokens and lengths, each into a file whose name begins with ``prefix``."""
        content = {"words": list(self.words), "tokens": self.numbers, "lengths": self.lengths}
        files.save(**{f"{prefix}{name}": value for name, value in content.items()})

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

    def matrix(self) -> Any:  # noqa: ANN401 (scipy)
        """Return a scipy CSR array with a 1 for each token, shape (chunks, words)."""
        from scipy.sparse import csr_array

        ones = np.ones(self.numbers.size, np.int32)
        shape = (self.lengths.size, len(self.words))
        return csr_array((ones, self.numbers, self.starts), shape=shape)


@dataclass(frozen=True)
class AnalysedTexts:
    """The words of texts; chunk i of the tokens is ``chunk_ids[i]``.

    Attributes:
        chunk_ids: in ascending order of their bytes.
        analyzer: its name, with ``auto`` resolved.
        tokens: of each chunk.
        blocks: of the chunks, in their order; the digest of each is of its texts.
    """

    chunk_ids: Sequence[str]
    analyzer: str
    tokens: ChunkTokens
    blocks: Sequence[Block] = ()

    @classmethod
    def of(
        cls,
        chunk_ids: Sequence[str],
        texts: Sequence[str],
        analyzer: str,
        earlier: AnalysedTexts | None = None,
    ) -> AnalysedTexts:
        """Analyse the texts of chunks with unique ids; blocks that ``earlier`` has are its own."""
        if len(chunk_ids) != len(texts):
            raise DataError(f"{len(chunk_ids)} chunk ids but {len(texts)} texts")
        order = byte_order_ranks(chunk_ids).argsort().tolist()
        ids, ordered = [chunk_ids[i] for i in order], [texts[i] for i in order]
        resolved = resolve_analyzer(analyzer, ordered)
        stored: dict[str, ChunkTokens] = {}
        if earlier is not None and earlier.analyzer == resolved:
            ends = accumulate(block.rows for block in earlier.blocks)
            for block, end in zip(earlier.blocks, ends, strict=True):
                stored[block.digest] = earlier.tokens.part(end - block.rows, end)
        blocks: list[Block] = []
        tokens: list[ChunkTokens | Iterator[list[str]]] = []
        start = 0
        for end in block_ends(ids, map(len, ordered)):
            contents = [text.encode() for text in ordered[start:end]]
            blocks.append(Block(records_digest(contents, "texts"), end - start))
            counts = stored.get(blocks[-1].digest)
            tokens.append(counts or _analysed(resolved, ordered[start:end]))
            start = end
        return cls(ids, resolved, ChunkTokens.joined(tokens), blocks)

    @classmethod
    def load(cls, folder: Path) -> AnalysedTexts:
        """Read them back; arrays are mapped."""
        files = ArrayFolder(folder)
        analyzer = files.mapping("analysed_texts", ["analyzer"])["analyzer"]
        blocks = [Block(*block) for block in files.mapping(_BLOCKS, ["blocks"])["blocks"]]
        return cls(files.texts(CHUNK_IDS), analyzer, ChunkTokens.load(files), blocks)

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        files = ArrayFolder(folder)
        self.tokens.save(files)
        blocks = [(block.digest, block.rows) for block in self.blocks]
        files.save(**{CHUNK_IDS: list(self.chunk_ids), _BLOCKS: {"blocks": blocks}})
        files.save(analysed_texts={"analyzer": self.analyzer})

    def counts(self) -> SparseIndex:
        """Count the tokens of each chunk, a column a word; of the smallest type that holds them."""
        by_word = self.tokens.matrix().tocsc()
        by_word.sum_duplicates()
        counts = by_word.data.astype(np.min_scalar_type(int(by_word.data.max(initial=0))))
        indptr, chunks = by_word.indptr.astype(np.int64), by_word.indices.astype(np.int32)
        return SparseIndex(self.chunk_ids, counts, chunks, indptr)

    @property
    def facts(self) -> dict[str, object]:
        """What is worth showing.

        ``analyzer``, with ``auto`` resolved; ``chunks``; ``empty_chunks``, those without a token;
        ``vocabulary``, the number of distinct tokens; ``mean_length`` of a chunk in tokens.
        """
        lengths = self.tokens.lengths.tolist()
        return {
            "analyzer": self.analyzer,
            "chunks": len(lengths),
            "empty_chunks": lengths.count(0),
            "vocabulary": len(self.tokens.words),
            "mean_length": sum(lengths) / len(lengths) if lengths else 0.0,
        }


def _analysed(analyzer: str, texts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        yield from analyze_all(analyzer, texts[start : start + TEXTS_AT_ONCE])
