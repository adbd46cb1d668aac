"""From a ranking to the lists of candidates that a reranker scores, and back to a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.evaluation.units import unit_ranking
from rag_assets.ordering import Hits, byte_order_ranks, top_k
from rag_assets.schemas import RUNS
from rag_assets.scratch_duckdb import scratch_connection

Scores = npt.NDArray[np.float64]

_ORDER = """
SELECT query_id, row_number() OVER (
           PARTITION BY query_id ORDER BY score DESC, encode(unit_id) DESC)::INTEGER AS rank,
       score, unit_id, chunk_id, document_id
FROM scored QUALIFY rank <= $depth ORDER BY query_id, rank
"""


class Pair(NamedTuple):
    """A query and a document, as the model reads them."""

    query: str
    document: str


class Candidates(NamedTuple):
    """What a reranker puts in order for one query.

    Attributes:
        query_id: the query.
        query: its text as it was asked.
        unit_ids: the judged units, in the order of the input, best first.
        texts: the text of each: its best chunk, as it is indexed.
        scores: the input's scores; float64, shape (n,).
    """

    query_id: str
    query: str
    unit_ids: Sequence[str]
    texts: Sequence[str]
    scores: Scores


def candidate_lists(
    ranking: pa.Table, queries: pa.Table, texts: Mapping[str, str]
) -> list[Candidates]:
    """Return the candidates of every query that has some, by ascending query id.

    Args:
        ranking: table of :data:`rag_assets.schemas.RUNS`, cut at the candidates.
        queries: with the columns ``query_id`` and ``text``.
        texts: chunk id -> text.
    """
    asked = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    ordered = ranking.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    ids = ordered.column("query_id").to_pylist()
    items, chunks = ordered["unit_id"].to_pylist(), ordered["chunk_id"].to_pylist()
    scores: Scores = ordered["score"].to_numpy()
    starts = [row for row in range(len(ids)) if row == 0 or ids[row] != ids[row - 1]]
    found = []
    for start, end in pairwise([*starts, len(ids)]):
        own = [texts[chunk] for chunk in chunks[start:end]]
        query = asked[ids[start]]
        found.append(Candidates(ids[start], query, items[start:end], own, scores[start:end]))
    return found


def complete_lists(
    queries: pa.Table, chunks: pa.Table, texts: Mapping[str, str]
) -> list[Candidates]:
    """Return all chunks as the candidates of every query, by ascending query id.

    Args:
        queries: with the columns ``query_id`` and ``text``.
        chunks: with the column ``chunk_id``; the order is that of the candidates.
        texts: chunk id -> text.
    """
    ids = chunks.column("chunk_id").to_pylist()
    own, none = [texts[chunk] for chunk in ids], np.zeros(len(ids))
    ordered = queries.sort_by("query_id")
    asked = zip(ordered["query_id"].to_pylist(), ordered["text"].to_pylist(), strict=True)
    return [Candidates(query_id, text, ids, own, none) for query_id, text in asked]


def best_units(
    chunks: pa.Table,
    candidates: Sequence[Candidates],
    scores: Sequence[Scores],
    failures: Mapping[str, str],
    *,
    judge: str,
    depth: int,
) -> pa.Table:
    """Return the ranking of the units of all chunks; a unit's score is that of its best chunk.

    Args:
        chunks: with ``chunk_id``, ``document_id`` and, where there are parents,
            ``parent_chunk_id``.
        candidates: :func:`complete_lists` of them.
        scores: for each, one score a chunk.
        failures: queries without scores; they have no rows.
        judge: ``document``, or a unit that is the chunk or its parent.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`.
    """
    order = byte_order_ranks(chunks.column("chunk_id").to_pylist())

    def search(numbers: Sequence[int], k: int) -> list[Hits]:
        best = [top_k(scores[number], order, k) for number in numbers]
        return [Hits(own, scores[n][own]) for n, own in zip(numbers, best, strict=True)]

    left = [n for n, one in enumerate(candidates) if one.query_id not in failures]
    scores = [scores[n] for n in left]
    names = [candidates[n].query_id for n in left]
    return unit_ranking(names, chunks, search, judge=judge, depth=depth)


def reordered(
    ranking: pa.Table,
    candidates: Sequence[Candidates],
    scores: Sequence[Scores],
    failures: Mapping[str, str],
    depth: int,
) -> pa.Table:
    """Return the ranking by new scores; a query that failed has no rows.

    Args:
        ranking: the table that ``candidates`` were made of.
        candidates: :func:`candidate_lists` of it.
        scores: for each, one score a candidate; NaN: it is dropped.
        failures: queries without scores.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`: score descending, then id descending.
    """
    ordered = ranking.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    new = np.full(ordered.num_rows, np.nan)
    start = 0
    for one, own in zip(candidates, scores, strict=True):
        end = start + len(one.unit_ids)
        if one.query_id not in failures:
            new[start:end] = own
        start = end
    table = ordered.drop_columns(["rank", "score"]).append_column("score", pa.array(new))
    return ranked_by_score(table.filter(pa.array(~np.isnan(new))), depth)


def ranked_by_score(scored: pa.Table, depth: int) -> pa.Table:
    """Return the rows of every query in the order of their scores, then of their ids.

    Args:
        scored: the columns of :data:`rag_assets.schemas.RUNS` but the rank, in any order.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
    """
    with scratch_connection() as connection:
        connection.register("scored", scored)
        found = connection.sql(_ORDER, params={"depth": depth}).to_arrow_table()
    return RUNS.check(found.cast(RUNS.arrow()).combine_chunks())
