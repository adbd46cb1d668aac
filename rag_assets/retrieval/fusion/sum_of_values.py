"""What all fusions share: each input gives each of its items a value, and the values are summed.

An item that an input does not hold gets nothing from it, and one that it holds twice counts once,
at its best rank. Values are summed in their own order: the last bit of a sum depends neither on
threads nor on which input gave which value, so items with the same values tie exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from rag_assets.errors import UsageError
from rag_assets.retrieval.fusion.contributions import Contributions, Floats, Numbers, contributions
from rag_assets.schemas import RUNS
from rag_assets.store.canonical import taken

ValueOf = Callable[[Contributions], Floats]
"""Returns what an input gives an item, for each contribution."""


def fuse(
    rankings: Sequence[pa.Table],
    *,
    value: ValueOf,
    times_found: bool = False,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
    minima: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse rankings of the same queries.

    Args:
        rankings: tables of :data:`rag_assets.schemas.RUNS`, one an input.
        value: what an input gives an item.
        times_found: multiply the sum by how many inputs hold the item.
        candidates: how many ranks of each input are read.
        depth: how many ranks are kept.
        weights: a factor for each input; 1 for all when absent.
        minima: the lowest score that each input could give.

    Returns:
        Table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank. The chunk of a fused
        unit is that of the input which ranks the unit highest; the first input wins a tie.

    Raises:
        UsageError: there are not as many weights or minima as rankings.
    """
    for name, given in (("weights", weights), ("minima", minima)):
        if given is not None and len(given) != len(rankings):
            raise UsageError(f"{len(given)} {name} for {len(rankings)} inputs")
    stacked = pa.concat_tables(table.select(RUNS.arrow().names) for table in rankings)
    inputs = np.repeat(np.arange(len(rankings)), [table.num_rows for table in rankings])
    factors = np.ones(len(rankings)) if weights is None else np.asarray(weights, dtype=np.float64)
    lowest = np.zeros(len(rankings)) if minima is None else np.asarray(minima, dtype=np.float64)
    parts = [
        _fused(stacked, found, value(found) * factors[found.inputs], depth, times_found=times_found)
        for found in contributions(stacked, inputs, candidates, lowest)
    ]
    return RUNS.check(pa.concat_tables([RUNS.arrow().empty_table(), *parts]).combine_chunks())


def _fused(
    stacked: pa.Table, found: Contributions, values: Floats, depth: int, *, times_found: bool
) -> pa.Table:
    """Return the best items of some queries."""
    firsts, sizes = found.firsts, found.sizes
    items = np.repeat(np.arange(sizes.size), sizes)
    scores = _sums(values, items)
    if times_found:
        scores *= sizes
    queries = found.queries[firsts]
    order = np.lexsort((-found.items[firsts], -scores, queries))
    ranks = _places(queries[order]) + 1
    kept = order[ranks <= depth]
    highest = np.lexsort((found.ranks, items))[firsts]  # of equal ranks, that of the first input
    rows = found.rows[highest[kept]]
    texts = {
        name: taken(stacked[name], rows)
        for name in ("query_id", "item_id", "chunk_id", "document_id")
    }
    columns = {**texts, "rank": ranks[ranks <= depth], "score": scores[kept]}
    return pa.table({name: columns[name] for name in RUNS.arrow().names}, schema=RUNS.arrow())


def _sums(values: Floats, items: Numbers) -> Floats:
    """Return the sum of each item's values, the largest first."""
    order = np.lexsort((-values, items))
    return np.bincount(items, weights=values[order]).astype(np.float64)


def _places(queries: Numbers) -> Numbers:
    """Return the place of each row among those of its query, from 0; queries are in order."""
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    return np.arange(queries.size) - np.repeat(starts, np.diff(starts, append=queries.size))
