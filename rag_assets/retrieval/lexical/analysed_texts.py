"""Analysed texts as a folder: the words of chunks, with their ids and the analyzer.

Every index over the same chunks and words is put together from them; none analyses a text. Chunks
are kept in ascending order of their ids, whatever the order of the corpus: the same chunks give the
same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.ordering import byte_order_ranks
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder
from rag_assets.retrieval.lexical.analyzers import analyze_all, resolve_analyzer
from rag_assets.retrieval.lexical.token_counts import ChunkTokens
from rag_assets.store.artifacts import Block
from rag_assets.store.blocks import block_ends, records_digest

TEXTS_AT_ONCE = 4096
"""Texts that are analysed together: the tokens of all would take many times their memory."""

_DESCRIPTION = "analysed_texts"
_BLOCKS = "blocks"

BLOCKS_FILE = f"{_BLOCKS}.json"
"""Digests of texts, for the next analysis; other texts of the same words change this file alone."""


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
        cls, texts: SortedTexts, analyzer: str, known: AnalysedTexts | None = None
    ) -> AnalysedTexts:
        """Analyse texts.

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
        tokens = ChunkTokens.joined(_tokens_by_block(texts, resolved, known))
        return cls(texts.chunk_ids, resolved, tokens, texts.blocks)

    @classmethod
    def load(cls, folder: Path) -> AnalysedTexts:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        files = ArrayFolder(folder)
        described = files.mapping(_DESCRIPTION, ["analyzer"])
        named = files.mapping(_BLOCKS, ["blocks"])["blocks"]
        blocks = [Block(digest, rows) for digest, rows in named]
        ids, tokens = files.texts(CHUNK_IDS), ChunkTokens.load(files)
        return cls(ids, described["analyzer"], tokens, blocks)

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        files = ArrayFolder(folder)
        self.tokens.save(files)
        blocks = [(block.digest, block.rows) for block in self.blocks]
        described = {_DESCRIPTION: {"analyzer": self.analyzer}, _BLOCKS: {"blocks": blocks}}
        files.save(**{CHUNK_IDS: list(self.chunk_ids)}, **described)

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


def _blocks(ids: Sequence[str], texts: Sequence[str]) -> list[Block]:
    blocks, start = [], 0
    for end in block_ends(ids, map(len, texts)):
        contents = [text.encode() for text in texts[start:end]]
        blocks.append(Block(records_digest(contents, "texts"), end - start))
        start = end
    return blocks


def _tokens_by_block(
    texts: SortedTexts, analyzer: str, known: AnalysedTexts | None
) -> Iterator[Iterable[Sequence[str]] | ChunkTokens]:
    """Yield the tokens of each block: stored ones where its texts are known."""
    stored: dict[str, ChunkTokens] = {}
    if known is not None:
        for block, start, end in _places(known.blocks):
            stored[block.digest] = known.tokens.part(start, end)
    for block, start, end in _places(texts.blocks):
        yield stored.get(block.digest) or _analysed(analyzer, texts.texts[start:end])


def _places(blocks: Sequence[Block]) -> Iterator[tuple[Block, int, int]]:
    """Yield each block with its first chunk and the end of its last."""
    ends = accumulate(block.rows for block in blocks)
    for block, end in zip(blocks, ends, strict=True):
        yield block, end - block.rows, end


def _analysed(analyzer: str, texts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        yield from analyze_all(analyzer, texts[start : start + TEXTS_AT_ONCE])
