"""A lexical index as a folder: the chunks' ids, the analyzer, the engine's files; and its search.

Chunks are kept in ascending order of their ids, whatever the order of the corpus: the same chunks
give the same files, byte for byte. For feedback the words of each chunk with their frequencies lie
beside the index, which has only the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.code_versions.closure import Root
from rag_assets.errors import StoreError
from rag_assets.ordering import Hits, Positions, byte_order_ranks
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder
from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts
from rag_assets.retrieval.lexical.analyzers import analyze_all
from rag_assets.retrieval.lexical.builtin_engine import BuiltinEngine
from rag_assets.retrieval.lexical.rank_bm25_engine import RankBm25Engine
from rag_assets.retrieval.lexical.tfidf_engine import TfIdfEngine
from rag_assets.retrieval.lexical.token_counts import ChunkTokens
from rag_assets.retrieval.lexical.word_engine import WordEngine
from rag_assets.retrieval.retriever import IndexSearcher

FORMAT = 1
"""Version of the folder's layout; another one is refused."""

PROGRESS_EVERY = 100
"""Queries between two reports of progress."""

ENGINES: Mapping[str, type[WordEngine]] = {
    "builtin": BuiltinEngine,
    "rank_bm25": RankBm25Engine,
    "tfidf": TfIdfEngine,
}
"""What an index names as its engine; the code of each is found here, see ``engine_code``."""

_DESCRIPTION = "lexical_index"


@dataclass(frozen=True)
class LexicalIndex:
    """An index that can be searched; item i of the engine is the chunk ``chunk_ids[i]``."""

    chunk_ids: list[str]
    analyzer: str
    engine: WordEngine

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> LexicalIndex:
        """Open the index in ``folder``; ``mmap`` maps its arrays instead of reading them.

        Raises:
            StoreError: a file is missing, damaged, or of another format version.
        """
        files = ArrayFolder(folder)
        description = files.mapping(_DESCRIPTION, ["format", "engine", "analyzer"])
        if description["format"] != FORMAT:
            file, wrong = folder / f"{_DESCRIPTION}.json", description["format"]
            raise StoreError(f"{file}: format {wrong}; allowed: {FORMAT}")
        engine = ENGINES[description["engine"]].load(folder, mmap=mmap)
        return cls(files.texts(CHUNK_IDS), description["analyzer"], engine)

    @cached_property
    def ids_rank(self) -> Positions:
        """Place of every chunk's id in byte order."""
        return byte_order_ranks(self.chunk_ids)


def write_index(
    analysed: AnalysedTexts,
    name: str,
    engine: WordEngine,
    folder: Path,
    *,
    term_vectors: bool = False,
) -> dict[str, object]:
    """Write an index over analysed texts into ``folder``, which exists.

    Args:
        analysed: the words of the chunks.
        name: the engine's name in :data:`ENGINES`.
        engine: what was built of their tokens.
        folder: where the files go.
        term_vectors: whether the words of each chunk are written too, for feedback.

    Returns:
        Facts: ``engine``, its name; those of the analysed texts; ``vocabulary``, the number of
        distinct tokens; ``bytes`` of all files.
    """
    engine.save(folder)
    if term_vectors:
        TermVectors.of(analysed.tokens).save(folder)
    description = {"format": FORMAT, "engine": name, "analyzer": analysed.analyzer}
    ids = list(analysed.chunk_ids)
    ArrayFolder(folder).save(**{CHUNK_IDS: ids, _DESCRIPTION: description})
    size = sum(file.stat().st_size for file in folder.iterdir())
    return {
        "engine": name,
        **analysed.facts,
        "vocabulary": engine.vocabulary_size,
        "bytes": size,
    }


def engine_code(engine: str) -> list[Root]:
    """Return the roots of the code of one engine."""
    return [f"{__name__}:ENGINES[{engine}]"]


@dataclass(frozen=True)
class WordSearcher(IndexSearcher[LexicalIndex]):
    """An opened lexical index."""

    def search(
        self,
        queries: Sequence[str],
        depth: int,
        progress: Callable[[int], None] | None = None,
    ) -> list[Hits]:
        """Return for each query the chunks that score above 0, at most ``depth``.

        Order: score descending, then id descending by UTF-8 bytes, exact at the cut. A query
        without a token that is in the index has no hits.

        Args:
            queries: the texts to search for; analysed like the chunks.
            depth: hits a query at most.
            progress: called now and then, and at the end, with the number of queries done so far.

        Raises:
            UsageError: ``depth`` is below 1.
        """
        index, hits = self.index, list[Hits]()
        analysed = analyze_all(index.analyzer, queries)
        for best in index.engine.best(analysed, index.ids_rank, depth):
            hits.append(best)
            is_due = len(hits) % PROGRESS_EVERY == 0 or len(hits) == len(queries)
            if progress is not None and is_due:
                progress(len(hits))
        return hits


@dataclass(frozen=True)
class TermVectors:
    """The tokens of chunk i lie at ``first[i]`` to ``first[i + 1]``, by ascending number.

    Attributes:
        vocabulary: all tokens, ascending.
        tokens: number of a token, int32, shape (entries,).
        counts: how often it occurs in the chunk, int32, shape (entries,).
        first: int64, shape (chunks + 1,).
    """

    vocabulary: Sequence[str]
    tokens: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]

    @classmethod
    def of(cls, tokens: ChunkTokens) -> TermVectors:
        """Count the tokens of each chunk."""
        by_chunk = tokens.matrix()
        by_chunk.sum_duplicates()
        first = by_chunk.indptr.astype(np.int64)
        return cls(tokens.words, by_chunk.indices.astype(np.int32), by_chunk.data, first)

    @classmethod
    def load(cls, folder: Path) -> TermVectors:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        files = ArrayFolder(folder)
        arrays = (files.array(f"terms.{name}") for name in ("tokens", "counts", "first"))
        return cls(files.texts("terms.vocabulary"), *arrays)

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        content = {"tokens": self.tokens, "counts": self.counts, "first": self.first}
        content["vocabulary"] = list(self.vocabulary)
        ArrayFolder(folder).save(**{f"terms.{name}": value for name, value in content.items()})

    def of_chunk(self, chunk: int) -> dict[str, int]:
        """Return token -> frequency in one chunk."""
        entries = slice(int(self.first[chunk]), int(self.first[chunk + 1]))
        numbers, counts = self.tokens[entries].tolist(), self.counts[entries].tolist()
        return {self.vocabulary[token]: n for token, n in zip(numbers, counts, strict=True)}
