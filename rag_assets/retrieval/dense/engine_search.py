"""Search by an engine of others, whose hits we order.

An engine gives so many hits and cuts ties as it likes, so it is asked for more than are wanted,
until the last of them scores lower than the last that is wanted: then order and cut are ours. One
that looks at a fixed number of candidates, as a graph does, is asked for these, whatever the depth,
so that a shorter list is the beginning of a longer one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.dense.exact import MARGIN, Similarity, exact_scores
from rag_assets.retrieval.dense.flat_index import FlatIndex
from rag_assets.retrieval.dense.query_vectors import dense_matrix
from rag_assets.retrieval.retriever import IndexSearcher

Scores = npt.NDArray[np.float64]

QUERIES_AT_ONCE = 64
FP32_TOLERANCE = 1e-4
"""How far the scores of an engine in this process may be from exact ones, relatively."""


class Found(NamedTuple):
    """Positions of chunks, and scores, the higher the better; a chunk may stand there twice."""

    positions: Positions
    scores: Scores


class Engine(Protocol):
    """What searches.

    Attributes:
        count: how many vectors there are.
        candidates: how many a search gives, whatever the depth; None: as many as are asked for.
    """

    @property
    def count(self) -> int: ...  # noqa: D102

    @property
    def candidates(self) -> int | None: ...  # noqa: D102

    def nearest(self, queries: Vectors, limit: int) -> Sequence[Found]:
        """Return what is found for each query, ``limit`` at most."""


@dataclass(frozen=True)
class EngineIndex:
    """Chunks, and the engine that finds them.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        engine: what searches.
        similarity: what scores are; a Euclidean distance becomes its negative.
        flat: the vectors that score what is found; None: the engine does.
    """

    chunk_ids: Sequence[str]
    engine: Engine
    similarity: Similarity
    flat: FlatIndex | None = None

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)


@dataclass(frozen=True)
class EngineSearcher(IndexSearcher[EngineIndex]):
    """Chunks that an engine searches."""

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query vector."""
        return self.nearest(dense_matrix(queries), depth, progress)

    def nearest(
        self, queries: Vectors, k: int, progress: Callable[[int], None] | None = None
    ) -> list[Hits]:
        """Return for each query the best ``k`` chunks that the engine finds.

        Order: score descending, then id descending by UTF-8 bytes. Where a chunk is found twice,
        the best counts.

        Raises:
            UsageError: ``k`` is below 1.
        """
        if k < 1:
            raise UsageError(f"k is {k}; it must be at least 1")
        hits: list[Hits] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            hits += _search_block(self.index, queries[start : start + QUERIES_AT_ONCE], k)
            if progress is not None:
                progress(len(hits))
        return hits


def _search_block(index: EngineIndex, queries: Vectors, k: int) -> list[Hits]:
    engine = index.engine
    if not engine.count:
        return [Hits(np.empty(0, np.int64), np.empty(0)) for _ in queries]
    limit = min(engine.candidates or k + MARGIN, engine.count)
    hits = []
    for query, found in zip(queries, engine.nearest(queries, limit), strict=True):
        asked = limit
        while engine.candidates is None and not _is_complete(index, found, k, asked):
            asked = min(4 * asked, engine.count)
            found = engine.nearest(query[None], asked)[0]
        hits.append(_hits(index, query, _best_of(found), k))
    return hits


def _best_of(found: Found) -> Found:
    """Return each chunk once, with its best score."""
    order = np.argsort(-found.scores, kind="stable")
    positions, first = np.unique(found.positions[order], return_index=True)
    return Found(positions, found.scores[order][first])


def _is_complete(index: EngineIndex, found: Found, k: int, asked: int) -> bool:
    """Return whether nothing that the engine left out can be among the best k."""
    if len(found.scores) < asked or asked >= index.engine.count:
        return True
    scores = np.sort(_best_of(found).scores)[::-1]
    if len(scores) <= k:
        return False
    size = max(1.0, abs(scores[0]), abs(scores[-1]))
    error = FP32_TOLERANCE * size if index.flat is not None else 0.0
    return bool(scores[-1] < scores[k - 1] - error)


def _hits(index: EngineIndex, query: npt.NDArray[np.float32], found: Found, k: int) -> Hits:
    candidates, scores = found
    if index.flat is not None:
        scores = exact_scores(index.flat.vectors[candidates], query, index.similarity)
    order = top_k(scores, index.ids_rank[candidates], k)
    return Hits(candidates[order], scores[order])
