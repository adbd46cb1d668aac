"""A lexical index as a folder: the chunks' ids, the analyzer, the engine's files; and its search.

Chunks are kept in ascending order of their ids, whatever the order of the corpus: the same chunks
give the same files, byte for byte. For feedback the words of each chunk with their frequencies lie
beside the index, which has only the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assets.errors import StoreError
from rag_assets.ordering import Hits, Positions, byte_order_ranks
from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts, SortedTexts
from rag_assets.retrieval.lexical.analyzers import analyze_all, analyzer_versions
from rag_assets.retrieval.lexical.engine import (
    Engine,
    build_engine,
    check_engine,
    load_engine,
    own_versions,
)
from rag_assets.retrieval.lexical.index_files import load_array, load_list, load_object, save_json
from rag_assets.retrieval.lexical.token_counts import TokenCounts

FORMAT = 1
"""Version of the folder's layout; another one is refused."""


PROGRESS_EVERY = 100
"""Queries between two reports of progress."""


_DESCRIPTION = "lexical_index.json"


_CHUNK_IDS = "chunk_ids.json"


_VOCABULARY = "terms.vocabulary.json"


_TOKENS = "terms.tokens.npy"


_COUNTS = "terms.counts.npy"


_FIRST = "terms.first.npy"


@dataclass(frozen=True)
class LexicalIndex:
    """An index that can be searched; item i of the engine is the chunk ``chunk_ids[i]``."""

    chunk_ids: list[str]
    analyzer: str
    engine: Engine

    @classmethod
    def load(cls, folder: Path, *, mmap: bool = True) -> LexicalIndex:
        """Open the index in ``folder``; ``mmap`` maps its arrays instead of reading them.

        Raises:
            StoreError: a file is missing, damaged, or of another format version.
        """
        description = load_object(folder / _DESCRIPTION, "format", "engine", "analyzer")
        if description["format"] != FORMAT:
            raise StoreError(
                f"{folder / _DESCRIPTION}: format {description['format']}; allowed: {FORMAT}"
            )
        engine = load_engine(description["engine"], folder, mmap=mmap)
        return cls(load_list(folder / _CHUNK_IDS), description["analyzer"], engine)

    @cached_property
    def ids_rank(self) -> Positions:
        """Place of every chunk's id in byte order."""
        return byte_order_ranks(self.chunk_ids)


def build_index(
    chunk_ids: Sequence[str],
    texts: Sequence[str],
    *,
    engine: str,
    analyzer: str,
    k1: float,
    b: float,
    folder: Path,
    variant: str | None = None,
    delta: float | None = None,
    term_vectors: bool = False,
) -> dict[str, object]:
    """Index the chunks' texts and write the index into ``folder``, which exists.

    Args:
        chunk_ids: unique ids.
        texts: what is indexed of each chunk.
        engine: ``builtin`` or ``rank_bm25``.
        analyzer: ``auto`` or the name of an analyzer.
        k1: saturation of the term frequency, >= 0.
        b: strength of the length normalisation, 0 to 1.
        folder: where the files go.
        variant: which formula; None for the engine's default.
        delta: parameter of the variants ``bm25l`` and ``bm25plus``, > 0; None for its default.
        term_vectors: whether the words of each chunk are written too, for feedback.

    Returns:
        Facts: ``engine``; ``analyzer``, with ``auto`` resolved; ``chunks``; ``empty_chunks``,
        those without a token; ``vocabulary``, the number of distinct tokens; ``mean_length`` of a
        chunk in tokens; ``bytes`` of all files.

    Raises:
        DataError: an id occurs twice, or there are not as many texts as ids.
        UsageError: an unknown engine or analyzer, or a parameter out of its range.
    """
    check_engine(engine)
    analysed = AnalysedTexts.of(SortedTexts.of(chunk_ids, texts), analyzer)
    built = build_engine(engine, analysed.counts, k1, b, variant, delta)
    return write_index(analysed, engine, built, folder, term_vectors=term_vectors)


def write_index(
    analysed: AnalysedTexts,
    engine: str,
    built: Engine,
    folder: Path,
    *,
    term_vectors: bool = False,
) -> dict[str, object]:
    """Write an index over analysed texts into ``folder``, which exists.

    Args:
        analysed: the words of the chunks.
        engine: the name by which :func:`.engine.load_engine` opens ``built``.
        built: the engine over their counts.
        folder: where the files go.
        term_vectors: whether the words of each chunk are written too, for feedback.

    Returns:
        The facts of :func:`build_index`.
    """
    built.save(folder)
    if term_vectors:
        TermVectors.of_counts(analysed.counts).save(folder)
    save_json(folder / _CHUNK_IDS, list(analysed.chunk_ids))
    description = {"format": FORMAT, "engine": engine, "analyzer": analysed.analyzer}
    save_json(folder / _DESCRIPTION, description)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return {
        "engine": engine,
        **analysed.facts,
        "vocabulary": built.vocabulary_size,
        "bytes": size,
    }


def search(
    index: LexicalIndex,
    queries: Sequence[str],
    k: int,
    progress: Callable[[int], None] | None = None,
) -> list[Hits]:
    """Return for each query the chunks that score above 0, at most ``k``.

    Order: score descending, then id descending by UTF-8 bytes, exact at the cut. A query without a
    token that is in the index has no hits.

    Args:
        index: the index.
        queries: the texts to search for; analysed like the chunks.
        k: hits a query at most.
        progress: called now and then, and at the end, with the number of queries done so far.

    Raises:
        UsageError: ``k`` is below 1.
    """
    best = index.engine.best(analyze_all(index.analyzer, queries), index.ids_rank, k)
    if progress is None:
        return [*best]
    found: list[Hits] = []
    for hits in best:
        found.append(hits)
        done = len(found)
        if done % PROGRESS_EVERY == 0 or done == len(queries):
            progress(done)
    return found


def engine_versions(engine: str, analyzer: str) -> dict[str, str]:
    """Return the versions of everything that determines an index and its scores besides the texts.

    Raises:
        UsageError: an unknown engine or analyzer.
    """
    return own_versions(engine) | analyzer_versions(analyzer)


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
    def of_counts(cls, counts: TokenCounts) -> TermVectors:
        """Turn the counts of an index around."""
        order, first = counts.by_chunk
        tokens = counts.tokens_of(order).astype(np.int32)
        return cls(list(counts.vocabulary), tokens, counts.counts[order].astype(np.int32), first)

    @classmethod
    def load(cls, folder: Path) -> TermVectors:
        """Read them back; arrays are mapped.

        Raises:
            StoreError: a file is missing or damaged.
        """
        return cls(
            load_list(folder / _VOCABULARY),
            load_array(folder / _TOKENS, mmap=True),
            load_array(folder / _COUNTS, mmap=True),
            load_array(folder / _FIRST, mmap=True),
        )

    def save(self, folder: Path) -> None:
        """Write them as ``.npy`` and JSON files."""
        save_json(folder / _VOCABULARY, list(self.vocabulary))
        for name, values in (
            (_TOKENS, self.tokens),
            (_COUNTS, self.counts),
            (_FIRST, self.first),
        ):
            np.save(folder / name, values, allow_pickle=False)

    def of(self, chunk: int) -> dict[str, int]:
        """Return token -> frequency in one chunk."""
        entries = slice(int(self.first[chunk]), int(self.first[chunk + 1]))
        numbers, counts = self.tokens[entries].tolist(), self.counts[entries].tolist()
        return {self.vocabulary[token]: n for token, n in zip(numbers, counts, strict=True)}
