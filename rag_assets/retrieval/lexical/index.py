"""A lexical index as a folder: the chunks' ids, the analyzer, and the engine's files.

Chunks are kept in ascending order of their ids, whatever the order of the corpus: the same chunks
give the same files, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rag_assets.errors import StoreError
from rag_assets.ordering import Positions, byte_order_ranks
from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts
from rag_assets.retrieval.lexical.analyzers import analyzer_versions
from rag_assets.retrieval.lexical.engine import (
    Engine,
    build_engine,
    check_engine,
    load_engine,
    own_versions,
)
from rag_assets.retrieval.lexical.index_files import load_list, load_object, save_json
from rag_assets.retrieval.lexical.term_vectors import TermVectors

FORMAT = 1
"""Version of the folder's layout; another one is refused."""

_DESCRIPTION = "lexical_index.json"
_CHUNK_IDS = "chunk_ids.json"


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
        engine: ``bm25s``, ``rank_bm25`` or ``tantivy``.
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
    analysed = AnalysedTexts.of(chunk_ids, texts, analyzer)
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


def engine_versions(engine: str, analyzer: str) -> dict[str, str]:
    """Return the versions of everything that determines an index and its scores besides the texts.

    Raises:
        UsageError: an unknown engine or analyzer.
    """
    return own_versions(engine) | analyzer_versions(analyzer)
