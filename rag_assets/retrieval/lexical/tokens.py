"""The tokens of chunks and their counts as a folder, from which every index of them is made.

Tokens are kept as numbers of words, in the order of the texts. Chunks are kept in ascending order
of their ids, in segments of some blocks of :mod:`rag_assets.store.blocks`: the same chunks give the
same files. A segment whose chunks did not change is taken over as it is. In another one, blocks of
chunks whose texts did not change are: what is counted is counted anew, in a tenth of the time of
analysing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import DataError
from rag_assets.ordering import byte_order_ranks
from rag_assets.retrieval.array_folder import (
    CHUNKS,
    COUNTED,
    TERMS,
    ArrayFolder,
    Segment,
    divided,
    numbers_of,
    table_end,
    table_of,
)
from rag_assets.retrieval.lexical.analyzers import analyze_all, resolve_analyzer
from rag_assets.retrieval.lexical.chunk_tokens import TOKENS, ChunkTokens
from rag_assets.store.artifacts import Block

TEXTS_AT_ONCE = 4096
"""Texts that are analysed together: the tokens of all would take many times their memory."""

WORDS_AT_ONCE = 1 << 22
"""Words of segments from which on those that are equal are kept once while they are counted."""

_BLOCKS = "blocks"
BLOCKS_FILE = f"{_BLOCKS}.json"
"""Digests of texts, for the next analysis; other texts of the same words change this file alone."""

_ABOUT = "analysed_texts"


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

    def saved(self, folder: ArrayFolder, end: str) -> AnalysedSegment:
        """Write it, and return what is written."""
        self.save(folder, end, (*COUNTED, TOKENS))
        return AnalysedSegment(self.digest, self.blocks, files=folder, end=end)

    def save(self, folder: ArrayFolder, end: str, names: Sequence[str]) -> None:
        """Write some of its tables, or have the stored ones; where it lies it stays."""
        if (self.files, self.end) == (folder, end):
            return
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

    def tokens(self) -> ChunkTokens:
        """Return the tokens of the chunks."""
        return self.segment.tokens.part(self.start, self.end)

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
        ids = [chunk_ids[row] for row in order]
        ordered = pa.table({"text": [texts[row] for row in order]})["text"]
        return cls.of_ordered(ids, ordered.__getitem__, analyzer, earlier, compute)

    @classmethod
    def of_ordered(
        cls,
        ids: Sequence[str],
        texts_in: Callable[[slice], pa.ChunkedArray],
        analyzer: str,
        earlier: AnalysedTexts | None = None,
        compute: Compute = LOCAL,
        folder: Path | None = None,
    ) -> AnalysedTexts:
        """Analyse texts as :meth:`of` does, which are read when they are needed.

        Args:
            ids: of the chunks, ascending by their bytes.
            texts_in: gives the texts of some of them.
            analyzer: its name, or ``auto``.
            earlier: what may have some of them.
            compute: where the others are analysed.
            folder: where each segment is written when it is there, to take no memory.
        """

        def portions() -> Iterator[pa.ChunkedArray]:
            for start in range(0, len(ids), TEXTS_AT_ONCE):
                yield texts_in(slice(start, start + TEXTS_AT_ONCE))

        resolved = resolve_analyzer(analyzer, (t for each in portions() for t in each.to_pylist()))
        stored: Sequence[AnalysedSegment] = ()
        if earlier is not None and earlier.analyzer == resolved:
            stored = earlier.segments
        by_digest = {segment.digest: segment for segment in stored}
        places = {
            block.digest: _StoredChunks(segment, end - block.rows, end)
            for segment in stored
            for block, end in zip(
                segment.blocks, accumulate(b.rows for b in segment.blocks), strict=True
            )
        }
        lengths = (n for each in portions() for n in pc.utf8_length(each).to_pylist())
        sizes = np.fromiter(lengths, np.int64, len(ids))
        divisions = [*divided(ids, texts_in, sizes)]
        parts = [
            [] if digest in by_digest else _parts(blocks, places, rows.start)
            for digest, blocks, rows in divisions
        ]
        new = (part for each in parts for part in each if isinstance(part, slice))
        blocks = ((texts_in(rows).to_pylist(),) for rows in new)
        analysed = _in_order(compute.map(partial(_analysed, resolved), blocks))
        segments: list[AnalysedSegment] = []
        for (digest, of_segment, rows), each in zip(divisions, parts, strict=True):
            segment = by_digest.get(digest)
            if segment is None:
                content = (ids[rows], _tokens(each, analysed))
                segment = AnalysedSegment(digest, of_segment, content)
            if folder is not None:
                segment = segment.saved(ArrayFolder(folder), table_end(len(segments)))
            segments.append(segment)
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
            if sum(map(len, words)) > WORDS_AT_ONCE:
                words = [pc.unique(pa.chunked_array(words))]
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


def _parts(
    blocks: Sequence[Block], places: Mapping[str, _StoredChunks], start: int
) -> list[_StoredChunks | slice]:
    """Return what the tokens of some blocks come from: what is stored, or rows from ``start`` on.

    Those that follow one another are one.
    """
    parts: list[_StoredChunks | slice] = []
    for block in blocks:
        place, last = places.get(block.digest), parts[-1] if parts else None
        end = start + block.rows
        if place is None and isinstance(last, slice):
            parts[-1] = slice(last.start, end)
        elif place is None:
            parts.append(slice(start, end))
        elif isinstance(last, _StoredChunks) and last.is_before(place):
            parts[-1] = last._replace(end=place.end)
        else:
            parts.append(place)
        start = end
    return parts


def _in_order(results: Iterator[tuple[int, ChunkTokens]]) -> Iterator[ChunkTokens]:
    """Yield results by their numbers, each as soon as those before it are there."""
    waiting, number = dict[int, ChunkTokens](), 0
    for other, tokens in results:
        waiting[other] = tokens
        while number in waiting:
            yield waiting.pop(number)
            number += 1


def _tokens(parts: Sequence[_StoredChunks | slice], analysed: Iterator[ChunkTokens]) -> ChunkTokens:
    """Return the tokens of some parts; ``analysed`` are those of rows, in their order."""
    if len(parts) == 1 and isinstance(parts[0], slice):
        return next(analysed)
    return ChunkTokens.joined(
        next(analysed) if isinstance(part, slice) else part.tokens() for part in parts
    )


def _analysed(analyzer: str, texts: Sequence[str]) -> ChunkTokens:
    starts = range(0, len(texts), TEXTS_AT_ONCE)
    return ChunkTokens.joined(
        analyze_all(analyzer, texts[start : start + TEXTS_AT_ONCE]) for start in starts
    )
