"""What all fusions share: each input gives each of its items a value, and the values are summed.

An item that an input does not hold gets nothing from it, and one that it holds twice counts once,
at its best rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.in_memory import in_memory
from rag_assets.schemas import RUNS

# The chunk shown for a fused unit is the one of the input that ranks the unit highest; the first
# input wins a tie. Values are summed in their own order: the last bit of a sum depends neither on
# threads nor on which input gave which value, so items with the same values tie exactly.
_FUSE = """
WITH contributions AS (
    SELECT query_id, item_id, input, min(rank) AS rank, arg_min(score, rank) AS score,
           arg_min(chunk_id, rank) AS chunk_id, arg_min(document_id, rank) AS document_id
    FROM inputs WHERE rank <= $candidates GROUP BY ALL
), valued AS (
    SELECT query_id, item_id, input, rank, chunk_id, document_id,
           ({value}) * weight AS value
    FROM contributions JOIN weights USING (input)
), fused AS (
    SELECT query_id, item_id,
           {total} AS score,
           first(chunk_id ORDER BY rank, input) AS chunk_id,
           first(document_id ORDER BY rank, input) AS document_id
    FROM valued GROUP BY ALL
), ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY query_id ORDER BY score DESC, encode(item_id) DESC) AS rank
    FROM fused
)
SELECT query_id, rank::INTEGER AS rank, score, item_id, chunk_id, document_id
FROM ranked WHERE rank <= $depth ORDER BY query_id, rank
"""

SUM = "sum(value ORDER BY value DESC)"
"""The total of most fusions."""

SUM_TIMES_FOUND = f"{SUM} * count(*)"
"""The sum, times how many inputs hold the item."""


def fuse(
    rankings: Sequence[pa.Table],
    *,
    value: str,
    total: str = SUM,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
    minima: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse rankings of the same queries.

    Args:
        rankings: tables of :data:`rag_assets.schemas.RUNS`, one an input.
        value: SQL expression for what an input gives an item; it may use ``rank``, ``score``,
            ``minimum`` (of the input) and windows over ``query_id, input``.
        total: SQL aggregate of the column ``value``.
        candidates: how many ranks of each input are read.
        depth: how many ranks are kept.
        weights: a factor for each input; 1 for all when absent.
        minima: the lowest score that each input could give.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.

    Raises:
        UsageError: there are not as many weights or minima as rankings.
    """
    for name, given in (("weights", weights), ("minima", minima)):
        if given is not None and len(given) != len(rankings):
            raise UsageError(f"{len(given)} {name} for {len(rankings)} inputs")
    with in_memory() as connection:
        connection.register("inputs", _stacked(rankings))
        connection.register("weights", _factors(len(rankings), weights, minima))
        sql = _FUSE.format(value=value, total=total)
        values = {"candidates": candidates, "depth": depth}
        fused = connection.sql(sql, params=values).to_arrow_table()
    return RUNS.check(fused.cast(RUNS.arrow()).combine_chunks())


def _stacked(rankings: Sequence[pa.Table]) -> pa.Table:
    columns = ["query_id", "rank", "score", "item_id", "chunk_id", "document_id"]
    return pa.concat_tables(
        table.select(columns).append_column("input", pa.array([i] * table.num_rows, pa.int32()))
        for i, table in enumerate(rankings)
    )


def _factors(
    count: int, weights: Sequence[float] | None, minima: Sequence[float] | None
) -> pa.Table:
    return pa.table(
        {
            "input": pa.array(range(count), pa.int32()),
            "weight": pa.array(weights or [1.0] * count, pa.float64()),
            "minimum": pa.array(minima or [0.0] * count, pa.float64()),
        }
    )
