"""The tokens of chunks and their counts as a folder, from which every index of them is made.

Tokens are kept as numbers of words, in the order of the texts. Chunks are kept in ascending order
of their ids, in segments of some blocks of :mod:`rag_assets.store.blocks`: the same chunks give the
same files. A segment whose chunks did not change is taken over as it is. In another one, blocks of
chunks whose texts did not change are: what is counted is counted anew, in a tenth of the time of
analysing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import DataError
from rag_assets.ordering import byte_order_ranks
from rag_assets.retrieval.array_folder import (
    CHUNKS,
    COUNTED,
    TERMS,
    ArrayFolder,
    Entries,
    Ints,
    Longs,
    Segment,
    divided,
    numbers_of,
    table_end,
    table_of,
)
from rag_assets.retrieval.lexical.analyzers import analyze_all, resolve_analyzer
from rag_assets.store.artifacts import Block

TEXTS_AT_ONCE = 4096
"""Texts that are analysed together: the tokens of all would take many times their memory."""

_BLOCKS = "blocks"
BLOCKS_FILE = f"{_BLOCKS}.json"
"""Digests of texts, for the next analysis; other texts of the same words change this file alone."""

_ABOUT = "analysed_texts"

TOKENS = "tokens"
"""The table of the tokens of a segment's chunks, one after the other."""


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

        ones = np.ones(self.numbers.size, np.int32)
        shape = (self.lengths.size, len(self.words))
        by_word = csr_array((ones, self.numbers, self.starts), shape=shape).tocsc()
        by_word.sum_duplicates()
        counts = by_word.data.astype(np.min_scalar_type(int(by_word.data.max(initial=0))))
        first = np.empty(len(self.words), np.int64)
        first[self.numbers[::-1]] = np.arange(self.numbers.size)[::-1]  # the last value stays
        holding = np.diff(by_word.indptr.astype(np.int64))
        words = pa.array(self.words, pa.string())
        return Segment(
            table_of(chunk_id=pa.array(chunk_ids, pa.string()), length=self.lengths),
            table_of(term=words, document_frequency=holding, first=first),
            Entries(by_word.indices.astype(np.int32), counts),
        )


@dataclass(frozen=True)
class AnalysedSegment:
    """Some of the chunks, which follow one another.

    Attributes:
        digest: of the ids and texts of the chunks.
        blocks: of the chunks, in their order; the digest of each is of its texts.
        content: ids and tokens of the chunks; None: they are stored.
        files: where it is stored; None: nowhere.
        end: of the names of its tables there.
    """

    digest: str
    blocks: Sequence[Block]
    content: tuple[Sequence[str], ChunkTokens] | None = None
    files: ArrayFolder | None = None
    end: str = ""

    @cached_property
    def tokens(self) -> ChunkTokens:
        """The tokens of the chunks."""
        if self.content is not None:
            return self.content[1]
        return ChunkTokens.load(self._files, self.end)

    @property
    def segment(self) -> Segment:
        """The counts of all tokens; of a stored segment they are read."""
        if self.content is None:
            return Segment.load(self._files, self.end)
        ids, tokens = self.content
        return tokens.counts(ids)

    @property
    def _files(self) -> ArrayFolder:
        if self.files is None:
            raise TypeError("a segment is without content")
        return self.files

    def save(self, folder: ArrayFolder, end: str, names: Sequence[str]) -> None:
        """Write some of its tables, or have the stored ones."""
        if self.content is None:
            for name in names:
                stored = f"{name}{self.end}.parquet"
                folder.take_over(f"{name}{end}.parquet", self._files, stored)
            return
        tables = {**self.segment.tables(), TOKENS: table_of(number=self.tokens.numbers)}
        folder.save(**{f"{name}{end}": tables[name] for name in names})


class _StoredChunks(NamedTuple):
    """Chunks of a segment, from ``start`` to ``end``."""

    segment: AnalysedSegment
    start: int
    end: int

    def is_before(self, other: _StoredChunks) -> bool:
        """Return whether others follow in the same segment."""
        return self.segment is other.segment and self.end == other.start


@dataclass(frozen=True)
class AnalysedTexts:
    """The words of texts.

    Attributes:
        segments: of all chunks, in ascending order of the bytes of their ids.
        facts: what is worth showing: ``analyzer``, with ``auto`` resolved; ``chunks``;
            ``empty_chunks``, those without a token; ``vocabulary``, the number of distinct tokens;
            ``mean_length`` of a chunk in tokens.
    """

    segments: Sequence[AnalysedSegment]
    facts: Mapping[str, Any]

    @property
    def analyzer(self) -> str:
        """Its name, with ``auto`` resolved."""
        return str(self.facts["analyzer"])

    @classmethod
    def of(
        cls,
        chunk_ids: Sequence[str],
        texts: Sequence[str],
        analyzer: str,
        earlier: AnalysedTexts | None = None,
        compute: Compute = LOCAL,
    ) -> AnalysedTexts:
        """Analyse the texts of chunks with unique ids; blocks that ``earlier`` has are its own."""
        if len(chunk_ids) != len(texts):
            raise DataError(f"{len(chunk_ids)} chunk ids but {len(texts)} texts")
        order = byte_order_ranks(chunk_ids).argsort().tolist()
        ids, ordered = [chunk_ids[i] for i in order], [texts[i] for i in order]
        resolved = resolve_analyzer(analyzer, ordered)
        stored: Sequence[AnalysedSegment] = ()
        if earlier is not None and earlier.analyzer == resolved:
            stored = earlier.segments
        by_digest = {segment.digest: segment for segment in stored}
        places = {
            block.digest: _StoredChunks(segment, end - block.rows, end)
            for segment in stored
            for block, end in zip(segment.blocks, _ends(segment.blocks), strict=True)
        }
        divisions = [*divided(ids, ordered, [*map(len, ordered)])]
        parts = {
            digest: _parts(blocks, places, ordered[rows])
            for digest, blocks, rows in divisions
            if digest not in by_digest
        }
        new = [part for each in parts.values() for part in each if isinstance(part, list)]
        by_number = dict(compute.map(partial(_analysed, resolved), ((part,) for part in new)))
        analysed = iter([by_number[number] for number in range(len(new))])
        segments = [
            by_digest.get(digest)
            or AnalysedSegment(digest, blocks, (ids[rows], _tokens(parts[digest], analysed)))
            for digest, blocks, rows in divisions
        ]
        return cls.of_segments(segments, resolved)

    @classmethod
    def of_segments(cls, segments: Sequence[AnalysedSegment], analyzer: str) -> AnalysedTexts:
        """Return these segments, of an analyzer with this name."""
        lengths = [np.empty(0, np.int64)]
        words = [pa.array([], pa.string())]
        for segment in segments:
            if segment.content is None and segment.files is not None:
                terms, chunks = (
                    segment.files.table(f"{name}{segment.end}", [column])
                    for name, column in ((TERMS, "term"), (CHUNKS, "length"))
                )
                words += terms.column("term").chunks
                lengths.append(numbers_of(chunks, "length"))
            else:
                words.append(pa.array(segment.tokens.words, pa.string()))
                lengths.append(segment.tokens.lengths)
        every = np.concatenate(lengths)
        facts = {
            "analyzer": analyzer,
            "chunks": every.size,
            "empty_chunks": int(np.count_nonzero(every == 0)),
            "vocabulary": len(pa.chunked_array(words).unique()),
            "mean_length": int(every.sum()) / every.size if every.size else 0.0,
        }
        return cls(segments, facts)

    @classmethod
    def load(cls, folder: Path) -> AnalysedTexts:
        """Know what is stored; tables are read when they are used."""
        files = ArrayFolder(folder)
        facts = files.mapping(_ABOUT, ["analyzer", "vocabulary"])
        segments = [
            AnalysedSegment(
                digest, [Block(*block) for block in blocks], files=files, end=table_end(number)
            )
            for number, (digest, blocks) in enumerate(
                files.mapping(_BLOCKS, ["segments"])["segments"]
            )
        ]
        return cls(segments, facts)

    def save(self, folder: Path) -> None:
        """Write them as Parquet and JSON files."""
        self.save_tables(folder, (*COUNTED, TOKENS))
        segments = [
            (segment.digest, [(block.digest, block.rows) for block in segment.blocks])
            for segment in self.segments
        ]
        ArrayFolder(folder).save(**{_BLOCKS: {"segments": segments}, _ABOUT: dict(self.facts)})

    def save_tables(self, folder: Path, names: Sequence[str]) -> None:
        """Write some of the tables of all segments."""
        for number, segment in enumerate(self.segments):
            segment.save(ArrayFolder(folder), table_end(number), names)


def _ends(blocks: Sequence[Block]) -> list[int]:
    return [*accumulate(block.rows for block in blocks)]


def _parts(
    blocks: Sequence[Block], places: Mapping[str, _StoredChunks], texts: list[str]
) -> list[_StoredChunks | list[str]]:
    """Return what the tokens of some blocks come from; those that follow one another are one."""
    parts: list[_StoredChunks | list[str]] = []
    for block, end in zip(blocks, _ends(blocks), strict=True):
        place, last = places.get(block.digest), parts[-1] if parts else None
        if place is None:
            if not isinstance(last, list):
                parts.append(last := [])
            last += texts[end - block.rows : end]
        elif isinstance(last, _StoredChunks) and last.is_before(place):
            parts[-1] = last._replace(end=place.end)
        else:
            parts.append(place)
    return parts


def _tokens(
    parts: Sequence[_StoredChunks | list[str]], analysed: Iterator[ChunkTokens]
) -> ChunkTokens:
    """Return the tokens of some parts; ``analysed`` are those of texts, in their order."""
    tokens = [
        next(analysed) if isinstance(part, list) else part.segment.tokens.part(part.start, part.end)
        for part in parts
    ]
    if len(parts) == 1 and isinstance(parts[0], list):
        return tokens[0]
    return ChunkTokens.joined(tokens)


def _analysed(analyzer: str, texts: Sequence[str]) -> ChunkTokens:
    starts = range(0, len(texts), TEXTS_AT_ONCE)
    return ChunkTokens.joined(
        analyze_all(analyzer, texts[start : start + TEXTS_AT_ONCE]) for start in starts
    )
