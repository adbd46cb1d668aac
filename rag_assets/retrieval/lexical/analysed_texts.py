"""Analysed texts as a folder: the words of chunks, counted, with their ids and the analyzer.

Every index over the same chunks and words is put together from them; none analyses a text. Chunks
are kept in ascending order of their ids, whatever the order of the corpus: the same chunks give the
same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.ordering import byte_order_ranks
from rag_assets.retrieval.lexical.analyzers import analyze_all, resolve_analyzer
from rag_assets.retrieval.lexical.index_files import load_list, load_object, save_json
from rag_assets.retrieval.lexical.token_counts import SliceCounts, TokenCounts
from rag_assets.store.artifacts import Block
from rag_assets.store.blocks import block_ends, records_digest

TEXTS_AT_ONCE = 4096
"""Texts that are analysed together: the tokens of all would take many times their memory."""

LONGEST_RUN = 1 << 19
"""Chunks whose counts are taken out of known ones together, at most: it bounds the memory."""

MOST_RUNS = 40

_CHUNK_IDS = "chunk_ids.json"
_DESCRIPTION = "analysed_texts.json"

BLOCKS_FILE = "blocks.json"
"""Digests of texts, for the next counts; other texts of the same words change this file alone."""


@dataclass(frozen=True)
class SortedTexts:
    """What is indexed of each chunk, whatever analyzer reads it.

    Attributes:
        chunk_ids: in ascending order of their bytes.
        texts: in the same order.
        blocks: of the chunks, in their order; the digest of each is of its texts.
    """

    chunk_ids: Sequence[str]
    texts: Sequence[str]
    blocks: Sequence[Block]

    @classmethod
    def of(cls, chunk_ids: Sequence[str], texts: Sequence[str]) -> SortedTexts:
        """Sort the texts of chunks with unique ids.

        Raises:
            DataError: an id occurs twice, or there are not as many texts as ids.
        """
        if len(chunk_ids) != len(texts):
            raise DataError(f"{len(chunk_ids)} chunk ids but {len(texts)} texts")
        order = byte_order_ranks(chunk_ids).argsort().tolist()
        ids, sorted_texts = [chunk_ids[i] for i in order], [texts[i] for i in order]
        return cls(ids, sorted_texts, _blocks(ids, sorted_texts))

    @classmethod
    def of_chunks(cls, chunks: pa.Table, texts: Sequence[str], title_weight: int) -> SortedTexts:
        """Sort the texts of chunks.

        Args:
            chunks: table of :data:`rag_assets.schemas.CHUNKS`.
            texts: what is indexed of each chunk; the title, where there is one, is its beginning.
            title_weight: how often the words of a chunk's title count.
        """
        if title_weight != 1:
            titles = chunks.column("title").to_pylist()
            both = zip(texts, titles, strict=True)
            texts = [_with_title(text, title, title_weight) for text, title in both]
        return cls.of(chunks.column("chunk_id").to_pylist(), texts)


@dataclass(frozen=True)
class AnalysedTexts:
    """Counted words; chunk i of the counts is ``chunk_ids[i]``.

    Attributes:
        chunk_ids: in ascending order of their bytes.
        analyzer: its name, with ``auto`` resolved.
        counts: of the tokens of each chunk.
        blocks: of the chunks, in their order; the digest of each is of its texts.
    """

    chunk_ids: Sequence[str]
    analyzer: str
    counts: TokenCounts
    blocks: Sequence[Block] = ()

    @classmethod
    def of(
        cls, texts: SortedTexts, analyzer: str, known: AnalysedTexts | None = None
    ) -> AnalysedTexts:
        """Analyse texts and count their words.

        Args:
            texts: what is indexed.
            analyzer: ``auto``, which looks at a sample of all texts, or the name of an analyzer.
            known: texts that the same code analysed; blocks that it has are not analysed again.

        Raises:
            UsageError: an unknown analyzer.
        """
        resolved = resolve_analyzer(analyzer, texts.texts)
        if known is not None and known.analyzer != resolved:
            known = None
        runs = _runs(texts.blocks, known.blocks if known is not None else [])
        slices = _slices(runs, texts.texts, resolved, known)
        return cls(texts.chunk_ids, resolved, TokenCounts.merged(slices), texts.blocks)

    @classmethod
    def load(cls, folder: Path) -> AnalysedTexts:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        described = load_object(folder / _DESCRIPTION, "analyzer")
        named = load_object(folder / BLOCKS_FILE, "blocks")["blocks"]
        blocks = [Block(digest, rows) for digest, rows in named]
        ids = load_list(folder / _CHUNK_IDS)
        return cls(ids, described["analyzer"], TokenCounts.load(folder), blocks)

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        self.counts.save(folder)
        save_json(folder / _CHUNK_IDS, list(self.chunk_ids))
        save_json(folder / _DESCRIPTION, {"analyzer": self.analyzer})
        blocks = [(block.digest, block.rows) for block in self.blocks]
        save_json(folder / BLOCKS_FILE, {"blocks": blocks})

    @property
    def facts(self) -> dict[str, object]:
        """What is worth showing.

        ``analyzer``, with ``auto`` resolved; ``chunks``; ``empty_chunks``, those without a token;
        ``vocabulary``, the number of distinct tokens; ``mean_length`` of a chunk in tokens.
        """
        lengths = self.counts.lengths.tolist()
        return {
            "analyzer": self.analyzer,
            "chunks": len(lengths),
            "empty_chunks": lengths.count(0),
            "vocabulary": len(self.counts.vocabulary),
            "mean_length": sum(lengths) / len(lengths) if lengths else 0.0,
        }


@dataclass(frozen=True)
class Analysis:
    """How chunks are analysed.

    Attributes:
        analyzer: ``auto`` or the name of an analyzer.
        title_weight: how often the words of a chunk's title count.
    """

    analyzer: str
    title_weight: int = 1

    @property
    def label(self) -> str:
        """A name for people: ``english``, or with weighted titles ``english.titles_x3``."""
        weighted = f".titles_x{self.title_weight}" if self.title_weight != 1 else ""
        return f"{self.analyzer}{weighted}"


def _with_title(text: str, title: str, weight: int) -> str:
    if not title:
        return text
    return f"{title}\n" * weight + text.removeprefix(title).removeprefix("\n")


class _Run(NamedTuple):
    """Blocks one after the other, from chunk ``start`` to ``end``.

    ``known`` is the first of them among those that are known; None: they must be analysed.
    """

    start: int
    end: int
    n_blocks: int
    known: int | None


def _blocks(ids: Sequence[str], texts: Sequence[str]) -> list[Block]:
    blocks, start = [], 0
    for end in block_ends(ids, map(len, texts)):
        contents = [text.encode() for text in texts[start:end]]
        blocks.append(Block(records_digest(contents, "texts"), end - start))
        start = end
    return blocks


def _runs(blocks: Sequence[Block], known: Sequence[Block]) -> list[_Run]:
    """Return the blocks, of which those that are known and lie together are taken out together."""
    places = {block.digest: place for place, block in enumerate(known)}
    runs: list[_Run] = []
    start = 0
    for block in blocks:
        place, end = places.get(block.digest), start + block.rows
        last = runs[-1] if runs else None
        if (
            last is not None
            and last.known is not None
            and place == last.known + last.n_blocks
            and end - last.start <= LONGEST_RUN
        ):
            runs[-1] = _Run(last.start, end, last.n_blocks + 1, last.known)
        else:
            runs.append(_Run(start, end, 1, place))
        start = end
    # To take one out all entries are looked at: many short ones are analysed faster.
    found = sorted((run for run in runs if run.known is not None), key=_length, reverse=True)
    short = set(found[MOST_RUNS:])
    return [run for one in runs for run in (_parted(one, blocks) if one in short else [one])]


def _parted(run: _Run, blocks: Sequence[Block]) -> list[_Run]:
    """Return the blocks of a run, none of them known."""
    inside, start = [], 0
    for block in blocks:
        if run.start <= start < run.end:
            inside.append(_Run(start, start + block.rows, 1, None))
        start += block.rows
    return inside


def _length(run: _Run) -> int:
    return run.end - run.start


def _slices(
    runs: Sequence[_Run], texts: Sequence[str], analyzer: str, known: AnalysedTexts | None
) -> Iterator[SliceCounts]:
    starts = [0, *accumulate(block.rows for block in known.blocks)] if known is not None else []
    for run in runs:
        if known is not None and run.known is not None:
            last = run.known + run.n_blocks
            blocks = known.counts.blocks[run.known : last]
            yield known.counts.taken(starts[run.known], starts[last], blocks)
        else:
            yield SliceCounts.of(list(_analysed(analyzer, texts[run.start : run.end])))


def _analysed(analyzer: str, texts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        yield from analyze_all(analyzer, texts[start : start + TEXTS_AT_ONCE])
