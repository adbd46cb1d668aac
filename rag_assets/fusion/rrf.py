"""Reciprocal rank fusion.

Cormack, Clarke and Buettcher: Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods, SIGIR 2009: ``score(d) = sum over inputs of 1 / (k + rank(d))``, ranks from 1. An
item that an input does not hold gets nothing from it, and one that it holds twice counts once, at
its best rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from rag_assets.schemas import RUNS

# The chunk shown for a fused unit is the one of the input that ranks the unit highest; the first
# input wins a tie. A sum is ordered by rank: its last bit depends neither on threads nor on which
# input gave which rank, so items with the same ranks tie exactly.
_FUSE = """
WITH contributions AS (
    SELECT query_id, item_id, input, min(rank) AS rank,
           arg_min(chunk_id, rank) AS chunk_id, arg_min(document_id, rank) AS document_id
    FROM inputs WHERE rank <= $candidates GROUP BY ALL
), fused AS (
    SELECT query_id, item_id,
           sum(1 / ($k + rank) ORDER BY rank) AS score,
           first(chunk_id ORDER BY rank, input) AS chunk_id,
           first(document_id ORDER BY rank, input) AS document_id
    FROM contributions GROUP BY ALL
), ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY query_id ORDER BY score DESC, encode(item_id) DESC) AS rank
    FROM fused
)
SELECT query_id, rank::INTEGER AS rank, score, item_id, chunk_id, document_id
FROM ranked WHERE rank <= $depth ORDER BY query_id, rank
"""


def reciprocal_rank_fusion(
    rankings: Sequence[pa.Table], *, k: float, candidates: int, depth: int
) -> pa.Table:
    """Fuse rankings of the same queries.

    Args:
        rankings: tables of :data:`rag_assets.schemas.RUNS`, one an input.
        k: the constant of the formula; 60 in the paper.
        candidates: how many ranks of each input are read.
        depth: how many ranks are kept.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
    """
    columns = ["query_id", "rank", "item_id", "chunk_id", "document_id"]
    inputs = pa.concat_tables(
        table.select(columns).append_column("input", pa.array([i] * table.num_rows, pa.int32()))
        for i, table in enumerate(rankings)
    )
    with duckdb.connect() as connection:
        connection.register("inputs", inputs)
        values = {"k": float(k), "candidates": candidates, "depth": depth}
        fused = connection.sql(_FUSE, params=values).to_arrow_table()
    return RUNS.check(fused.cast(RUNS.arrow()).combine_chunks())
