"""From a search of chunks to rankings of judged units: the one way of every retriever of chunks.

A query's hits go through the same steps: those of documents that its filter lets through are kept,
scores fall with the age of documents, and of each judged unit the best chunk is kept. What is found
is exactly what the steps would leave of all chunks: a query is searched deeper until nothing that
was left out could rise into its first ``depth`` units. Hits at a smaller depth are the first of
those at a larger one.

The unit of a chunk is its document (``judge: document``), else its parent, else the chunk itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.units import unit_ids
from rag_assets.ordering import Hits, Positions, byte_order_ranks
from rag_assets.schemas import RUNS
from rag_assets.store.canonical import take_rows
from rag_assets.store.sql_paths import scratch_connection

Search = Callable[[Sequence[int], int], list[Hits]]
"""``search(queries, depth)``: the hits of the queries with these numbers, best first."""

Part = Callable[[Positions], Search | None]
"""``part(positions)``: a search of the chunks at these positions, whose hits count from 0; None
where they cannot be searched alone."""

Scores = npt.NDArray[np.float64]

GROWTH = 4
"""A search that was not deep enough goes so many times as deep."""

FEW = 0.25
"""Largest share of the chunks that is copied to be searched alone."""

MAX_HITS_AT_ONCE = 2_000_000
"""Most hits that one search is asked for: they are in memory until they are looked through."""

_ORDER = """
SELECT query_id, row_number() OVER (
           PARTITION BY query_id ORDER BY score DESC, encode(unit_id) DESC)::INTEGER AS rank,
       score, unit_id, chunk_id, document_id
FROM (FROM scored QUALIFY row_number() OVER (
          PARTITION BY query_id, unit_id ORDER BY score DESC, encode(chunk_id) DESC) = 1)
QUALIFY rank <= $depth ORDER BY query_id, rank
"""


def allowed_positions(
    filters: pa.Table, query_ids: Sequence[str], chunks: pa.Table
) -> list[Positions | None]:
    """Return the positions of the chunks that each query may find, ascending; None: all."""
    encoded = pc.dictionary_encode(chunks.column("document_id")).combine_chunks()
    documents = encoded.indices.to_numpy(zero_copy_only=False)
    by_query: dict[str, Positions] = {}
    for row in filters.to_pylist():
        matching = pa.array(row["document_ids"], pa.string())
        mask = pc.is_in(encoded.dictionary, value_set=matching).to_numpy(zero_copy_only=False)
        by_query |= dict.fromkeys(row["query_ids"], np.flatnonzero(mask[documents]))
    return [by_query.get(query_id) for query_id in query_ids]


@dataclass(frozen=True)
class UnitRanking:
    """A search of chunks, and the steps from its hits to units.

    Attributes:
        search: finds chunks.
        chunks: what positions of hits refer to: ``chunk_id``, which stands once for each of its
            texts, ``document_id`` and, where there are parents, ``parent_chunk_id``.
        judge: ``document``, or a unit that is the chunk or its parent.
        allowed: by query number: what :func:`allowed_positions` gives; None: all may find all.
        factors: document id -> by what the scores of its chunks are multiplied; None: nothing.
        part: searches some chunks alone; None: that cannot be done.
    """

    search: Search
    chunks: pa.Table
    judge: str
    allowed: Sequence[Positions | None] | None = None
    factors: Mapping[str, float] | None = None
    part: Part | None = None

    def table(self, query_ids: Sequence[str], depth: int) -> pa.Table:
        """Rank ``depth`` units of every query; ``query_ids`` are named by their number."""
        rankings = self.hits(range(len(query_ids)), depth)
        lengths = [len(hits.positions) for hits in rankings]
        ranks = [np.arange(1, length + 1, dtype=np.int32) for length in lengths]
        positions = np.concatenate([np.empty(0, np.int64), *(hits.positions for hits in rankings)])
        rows = positions.astype(np.int64)
        queries = pa.array(np.repeat(np.arange(len(rankings)), lengths))
        columns = {
            "query_id": pa.array(query_ids, pa.string()).take(queries),
            "rank": pa.array(np.concatenate([np.empty(0, np.int32), *ranks])),
            "score": pa.array(np.concatenate([np.empty(0), *(hits.scores for hits in rankings)])),
            "unit_id": take_rows(self._units, rows),
            "chunk_id": take_rows(self.chunks.column("chunk_id"), rows),
            "document_id": take_rows(self.chunks.column("document_id"), rows),
        }
        return RUNS.check(pa.table(columns, schema=RUNS.arrow()).combine_chunks())

    def hits(self, numbers: Sequence[int], depth: int) -> list[Hits]:
        """Return the best ``depth`` units of these queries, each as its best chunk, best first."""
        by_row: dict[int, Hits] = {}
        first: dict[int, int] = {}
        deeper = GROWTH if self._chunk_factors is not None else 1
        for same in self._by_filter(numbers):
            positions = self._allowed(same[0])
            n_allowed = self._n_chunks if positions is None else len(positions)
            share = n_allowed / max(self._n_chunks, 1)
            if not n_allowed:
                by_row |= dict.fromkeys(same, Hits(np.empty(0, np.int64), np.empty(0)))
            elif share <= FEW and (part := self._part(positions)) is not None:
                at_first = dict.fromkeys(same, min(depth * deeper, n_allowed))
                by_row |= self._deepened(part, at_first, depth, n_allowed)
            else:
                first |= dict.fromkeys(same, min(ceil(depth / share) * deeper, self._n_chunks))
        by_row |= self._deepened(self.search, first, depth, self._n_chunks)
        return [by_row[number] for number in numbers]

    def _deepened(
        self, search: Search, first: Mapping[int, int], depth: int, n_chunks: int
    ) -> dict[int, Hits]:
        """Search for each query as deep as ``first`` says, and deeper, until its units are settled.

        A query is settled where the search has no more hits, or where all that it left out scores
        less than the last unit that is wanted.
        """
        by_row: dict[int, Hits] = {}
        todo = dict(first)
        while todo:
            more: dict[int, int] = {}
            for numbers, deep in _batches(todo):
                for number, hits in zip(numbers, search(numbers, deep), strict=True):
                    best = self._best(number, hits)
                    is_all = len(hits.positions) < deep or deep >= n_chunks
                    if is_all or self._is_settled(best, hits, depth):
                        by_row[number] = Hits(best.positions[:depth], best.scores[:depth])
                    else:
                        more[number] = min(deep * GROWTH, n_chunks)
            todo = more
        return by_row

    def _best(self, number: int, hits: Hits) -> Hits:
        """Return what the steps leave of a query's hits, best first."""
        positions, scores = hits.positions, hits.scores
        allowed = self._allowed(number)
        if allowed is not None:
            chosen = np.isin(positions, allowed)
            positions, scores = positions[chosen], scores[chosen]
        if self._chunk_factors is not None:
            scores = weighted(scores, self._chunk_factors[positions])
            order = np.lexsort((-self._ids_rank[positions], -scores))
            positions, scores = positions[order], scores[order]
        if self._collapses:
            codes, first = np.unique(self._codes[positions], return_index=True)
            order = first[np.lexsort((-codes, -scores[first]))]
            positions, scores = positions[order], scores[order]
        return Hits(positions, scores)

    def _is_settled(self, best: Hits, hits: Hits, depth: int) -> bool:
        if len(best.positions) < depth:
            return False
        if self._chunk_factors is None and not self._collapses:
            return True
        highest = hits.scores[-1:]
        if self._chunk_factors is not None:
            highest = weighted(highest, float(self._chunk_factors.max()))
        return bool(best.scores[depth - 1] > highest[0])

    def _by_filter(self, numbers: Sequence[int]) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for number in numbers:
            groups.setdefault(id(self._allowed(number)), []).append(number)
        return list(groups.values())

    def _part(self, positions: Positions | None) -> Search | None:
        """Return a search of some chunks alone, whose hits have their place in the whole."""
        if positions is None or self.part is None or (part := self.part(positions)) is None:
            return None
        some, search = positions, part

        def placed(numbers: Sequence[int], depth: int) -> list[Hits]:
            return [Hits(some[hits.positions], hits.scores) for hits in search(numbers, depth)]

        return placed

    def _allowed(self, number: int) -> Positions | None:
        return self.allowed[number] if self.allowed is not None else None

    @property
    def _n_chunks(self) -> int:
        n_chunks: int = self.chunks.num_rows
        return n_chunks

    @cached_property
    def _units(self) -> pa.ChunkedArray:
        return unit_ids(self.chunks, self.judge)

    @cached_property
    def _codes(self) -> npt.NDArray[np.integer]:
        """The place of each chunk's unit among all units, in ascending order of their bytes."""
        ranks = pc.rank(self._units, tiebreaker="dense")
        return np.asarray(ranks, np.int32)

    @cached_property
    def _collapses(self) -> bool:
        is_chunk = self._units.equals(self.chunks.column("chunk_id"))
        return not is_chunk or self._codes.max(initial=0) < len(self._codes)

    @cached_property
    def _ids_rank(self) -> Positions:
        encoded = pc.dictionary_encode(self.chunks.column("chunk_id")).combine_chunks()
        ranks = byte_order_ranks(encoded.dictionary.to_pylist())
        of_chunks: Positions = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
        return of_chunks

    @cached_property
    def _chunk_factors(self) -> Scores | None:
        if self.factors is None or not self.chunks.num_rows:
            return None
        encoded = pc.dictionary_encode(self.chunks.column("document_id")).combine_chunks()
        by_document = np.array([self.factors[name] for name in encoded.dictionary.to_pylist()])
        of_chunks: Scores = by_document[encoded.indices.to_numpy(zero_copy_only=False)]
        return of_chunks


def weighted(scores: Scores, factors: Scores | float) -> Scores:
    """Return scores as they are after their factors: an older document's is never higher."""
    return np.where(scores < 0, scores / factors, scores * factors)


def time_weighted_ranking(ranking: pa.Table, factors: Mapping[str, float], depth: int) -> pa.Table:
    """Return a complete ranking by its weighted scores."""
    lowest = min(factors.values(), default=1.0)
    names = ranking.column("document_id").to_pylist()
    weights = np.array([factors.get(name, lowest) for name in names], np.float64)
    scores = weighted(ranking.column("score").to_numpy(), weights)
    table = ranking.drop_columns(["rank", "score"]).append_column("score", pa.array(scores))
    return ranked_by_score(table, depth)


def ranked_by_score(scored: pa.Table, depth: int) -> pa.Table:
    """Return the first ``depth`` units of every query in the order of their scores, then of ids.

    A unit that stands there for several chunks counts once, by the best of them.

    Args:
        scored: the columns of :data:`rag_assets.schemas.RUNS` but the rank, in any order.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
    """
    with scratch_connection() as connection:
        connection.register("scored", scored)
        ranked = connection.sql(_ORDER, params={"depth": depth}).to_arrow_table()
    return RUNS.check(ranked.cast(RUNS.arrow()).combine_chunks())


def _batches(depths: Mapping[int, int]) -> Iterator[tuple[list[int], int]]:
    """Yield queries of equal depth together, so that few searches are needed."""
    for deep in sorted(set(depths.values())):
        same = [number for number, wanted in depths.items() if wanted == deep]
        size = max(1, MAX_HITS_AT_ONCE // deep)
        for start in range(0, len(same), size):
            yield same[start : start + size], deep
