"""How many units below the cut of a ranking score the same as the last one above it.

The run of a cell ends at its cut, so this is counted in the ranking that it was cut from.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TIES = "ties_at_cut"
"""Column of query metrics, and the fact of a run's manifest from which it is filled."""

BELOW = 10
"""Ranks below the cut that are looked at, and that a ranking is searched for below its deepest cut.

A fixed number: what is counted must not depend on how deep another cell or fusion reads.
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
    ranks = ranking["rank"].to_numpy()
    deep = ranking.select(["query_id", "rank", "score"])
    near = deep.filter(pa.array((ranks >= top_k) & (ranks <= top_k + BELOW)))
    names, query = _numbered(near["query_id"])
    ranks, scores = near["rank"].to_numpy(), near["score"].to_numpy()
    at_cut, below = ranks == top_k, ranks > top_k
    last = np.full(len(names), np.nan)  # a query that ends above the cut is tied with nothing
    last[query[at_cut]] = scores[at_cut]
    tied = np.bincount(query[below & (scores == last[query])], minlength=len(names))
    found: dict[str, int | None] = {names[i]: int(tied[i]) for i in np.flatnonzero(tied)}
    if not ends_known:
        going_on = np.bincount(query[below], minlength=len(names))
        found |= {names[i]: None for i in np.flatnonzero(going_on == 0)}
    return dict(sorted(found.items()))


def _numbered(ids: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Return the ids, each once, and the number of each row's."""
    encoded = ids.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def with_ties(table: pa.Table, ties: Mapping[str, int | None]) -> pa.Table:
    """Return query metrics with the ties that were counted when the run was cut.

    Args:
        table: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        ties: :func:`tied_at_cut` of its run.
    """
    counts = [ties.get(query_id, 0) for query_id in table["query_id"].to_pylist()]
    place = table.column_names.index(TIES)
    return table.set_column(place, table.schema.field(place), pa.array(counts, pa.int32()))
