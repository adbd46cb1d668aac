"""Analysed texts as a folder: the words of chunks, counted, with their ids and the analyzer.

Every index over the same chunks and words is put together from them; none analyses a text. Chunks
are kept in ascending order of their ids, whatever the order of the corpus: the same chunks give the
same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.lexical.analyzers import analyze_all, resolve_analyzer
from rag_assets.lexical.index_files import load_list, load_object, save_json
from rag_assets.lexical.token_counts import TokenCounts
from rag_assets.ordering import byte_order_ranks

TEXTS_AT_ONCE = 4096
"""Texts that are analysed together: the tokens of all would take many times their memory."""

_CHUNK_IDS = "chunk_ids.json"
_DESCRIPTION = "analysed_texts.json"


@dataclass(frozen=True)
class AnalysedTexts:
    """Counted words; chunk i of the counts is ``chunk_ids[i]``.

    Attributes:
        chunk_ids: in ascending order of their bytes.
        analyzer: its name, with ``auto`` resolved.
        counts: of the tokens of each chunk.
    """

    chunk_ids: Sequence[str]
    analyzer: str
    counts: TokenCounts

    @classmethod
    def of(cls, chunk_ids: Sequence[str], texts: Sequence[str], analyzer: str) -> AnalysedTexts:
        """Analyse texts and count their words.

        Args:
            chunk_ids: unique ids.
            texts: what is indexed of each chunk.
            analyzer: ``auto`` or the name of an analyzer.

        Raises:
            DataError: an id occurs twice, or there are not as many texts as ids.
            UsageError: an unknown analyzer.
        """
        if len(chunk_ids) != len(texts):
            raise DataError(f"{len(chunk_ids)} chunk ids but {len(texts)} texts")
        resolved = resolve_analyzer(analyzer, texts)
        order = byte_order_ranks(chunk_ids).argsort().tolist()
        counts = TokenCounts.of(_analysed(resolved, [texts[i] for i in order]))
        return cls([chunk_ids[i] for i in order], resolved, counts)

    @classmethod
    def load(cls, folder: Path) -> AnalysedTexts:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        described = load_object(folder / _DESCRIPTION, "analyzer")
        ids = load_list(folder / _CHUNK_IDS)
        return cls(ids, described["analyzer"], TokenCounts.load(folder))

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        self.counts.save(folder)
        save_json(folder / _CHUNK_IDS, list(self.chunk_ids))
        save_json(folder / _DESCRIPTION, {"analyzer": self.analyzer})

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

    def analysed(self, chunks: pa.Table, texts: Sequence[str]) -> AnalysedTexts:
        """Analyse chunks.

        Args:
            chunks: table of :data:`rag_assets.schemas.CHUNKS`.
            texts: what is indexed of each chunk; the title, where there is one, is its beginning.
        """
        ids, weight = chunks.column("chunk_id").to_pylist(), self.title_weight
        if weight != 1:
            titles = chunks.column("title").to_pylist()
            both = zip(texts, titles, strict=True)
            texts = [_with_title(text, title, weight) for text, title in both]
        return AnalysedTexts.of(ids, texts, self.analyzer)


def _with_title(text: str, title: str, weight: int) -> str:
    if not title:
        return text
    return f"{title}\n" * weight + text.removeprefix(title).removeprefix("\n")


def _analysed(analyzer: str, texts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        yield from analyze_all(analyzer, texts[start : start + TEXTS_AT_ONCE])
