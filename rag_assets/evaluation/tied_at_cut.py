"""How many units below the cut of a ranking score the same as the last one above it.

The run of a cell ends at its cut, so this is counted in the ranking that it was cut from.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.in_memory import in_memory

TIES = "ties_at_cut"
"""Column of query metrics, and the fact of a run's manifest from which it is filled."""

BELOW = 10
"""Ranks below the cut that are looked at, and that a ranking is searched for below its deepest cut.

A fixed number: what is counted must not depend on how deep another cell or fusion reads.
"""

_TIED = """
    SELECT query_id, count(*)::INTEGER AS n
    FROM ranking JOIN (SELECT query_id, score FROM ranking WHERE rank = $top_k)
    USING (query_id, score)
    WHERE rank > $top_k GROUP BY query_id ORDER BY query_id
"""
_ENDING_AT_CUT = """
    SELECT query_id FROM ranking GROUP BY query_id HAVING max(rank) = $top_k ORDER BY query_id
"""


def tied_at_cut(ranking: pa.Table, top_k: int, *, ends_known: bool) -> dict[str, int | None]:
    """Return query id -> units below the cut that are tied with the unit at rank ``top_k``.

    A query that is not named has none. Scores are compared in float64, as they stand; at most
    :data:`BELOW` are counted.

    Args:
        ranking: table of :data:`rag_assets.schemas.RUNS`, :data:`BELOW` ranks deeper than
            ``top_k`` where there is more.
        top_k: the cut.
        ends_known: whether a query with no rank below the cut has nothing there, because more was
            asked for. Otherwise such a query is named with None: nobody knows.
    """
    deep = ranking.select(["query_id", "rank", "score"])
    near = pc.and_(
        pc.greater_equal(deep["rank"], top_k), pc.less_equal(deep["rank"], top_k + BELOW)
    )
    deep = deep.filter(near)
    found: dict[str, int | None] = {}
    with in_memory() as connection:
        connection.register("ranking", deep)
        found.update(connection.execute(_TIED, {"top_k": top_k}).fetchall())
        if not ends_known:
            ending = connection.execute(_ENDING_AT_CUT, {"top_k": top_k}).fetchall()
            found.update((query_id, None) for (query_id,) in ending)
    return found


def with_ties(table: pa.Table, ties: Mapping[str, int | None]) -> pa.Table:
    """Return query metrics with the ties that were counted when the run was cut.

    Args:
        table: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        ties: :func:`tied_at_cut` of its run.
    """
    counts = [ties.get(query_id, 0) for query_id in table["query_id"].to_pylist()]
    place = table.column_names.index(TIES)
    return table.set_column(place, table.schema.field(place), pa.array(counts, pa.int32()))
