"""What all fusions share: each input gives each of its items a value, and the values are summed.

An item that an input does not hold gets nothing from it, and one that it holds twice counts once,
at its best rank. Values are summed in their own order: the last bit of a sum depends neither on
threads nor on which input gave which value, so items with the same values tie exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import UsageError
from rag_assets.schemas import RUNS
from rag_assets.store.canonical import taken

Floats = npt.NDArray[np.float64]


Numbers = npt.NDArray[np.int64]


MAX_ROWS = 1 << 22
"""Rows that are worked on at once, unless one query has more; some 100 bytes each."""


@dataclass(frozen=True)
class Contributions:
    """Whole queries, a row for each query, item and input that holds it, sorted by these.

    Attributes:
        rows: where each row is in the stacked rankings, shape (rows,), as are all others.
        queries: number of the query, in the order of the ids' bytes.
        items: number of the item, in the same order.
        inputs: number of the input.
        ranks: from 1.
        scores: of the input.
        minima: the lowest score that the input could give.
    """

    rows: Numbers
    queries: Numbers
    items: Numbers
    inputs: Numbers
    ranks: Numbers
    scores: Floats
    minima: Floats

    @property
    def lists(self) -> Numbers:
        """Number of the list that a row is of: one query's items in one input."""
        n_inputs = 1 + int(self.inputs.max(initial=0))
        return self.queries * n_inputs + self.inputs

    @property
    def lowest(self) -> Floats:
        """The lowest score of each row's list."""
        low = np.full(1 + int(self.lists.max(initial=-1)), np.inf)
        np.minimum.at(low, self.lists, self.scores)
        return low[self.lists]

    @property
    def highest(self) -> Floats:
        """The highest score of each row's list."""
        high = np.full(1 + int(self.lists.max(initial=-1)), -np.inf)
        np.maximum.at(high, self.lists, self.scores)
        return high[self.lists]

    @property
    def firsts(self) -> Numbers:
        """The first row of each item of a query."""
        return np.flatnonzero(_changes(self.queries, self.items))

    @property
    def sizes(self) -> Numbers:
        """In how many inputs each item of a query is."""
        return np.diff(self.firsts, append=self.rows.size)


ValueOf = Callable[[Contributions], Floats]
"""Returns what an input gives an item, for each contribution."""


def fuse(
    rankings: Sequence[pa.Table],
    *,
    value: ValueOf,
    times_held: bool = False,
    candidates: int,
    depth: int,
    weights: Sequence[float] | None = None,
    minima: Sequence[float] | None = None,
) -> pa.Table:
    """Fuse rankings of the same queries.

    Args:
        rankings: tables of :data:`rag_assets.schemas.RUNS`, one an input.
        value: what an input gives an item.
        times_held: multiply the sum by how many inputs hold the item.
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
        _fused(stacked, held, value(held) * factors[held.inputs], depth, times_held=times_held)
        for held in _contributions(stacked, inputs, candidates, lowest)
    ]
    return RUNS.check(pa.concat_tables([RUNS.arrow().empty_table(), *parts]).combine_chunks())


def _fused(
    stacked: pa.Table, held: Contributions, values: Floats, depth: int, *, times_held: bool
) -> pa.Table:
    """Return the best items of some queries."""
    firsts, sizes = held.firsts, held.sizes
    items = np.repeat(np.arange(sizes.size), sizes)
    scores = _sums(values, items)
    if times_held:
        scores *= sizes
    queries = held.queries[firsts]
    order = np.lexsort((-held.items[firsts], -scores, queries))
    ranks = _places(queries[order]) + 1
    top = order[ranks <= depth]
    highest = np.lexsort((held.ranks, items))[firsts]  # of equal ranks, that of the first input
    rows = held.rows[highest[top]]
    texts = {
        name: taken(stacked[name], rows)
        for name in ("query_id", "unit_id", "chunk_id", "document_id")
    }
    columns = {**texts, "rank": ranks[ranks <= depth], "score": scores[top]}
    return pa.table({name: columns[name] for name in RUNS.arrow().names}, schema=RUNS.arrow())


def _sums(values: Floats, items: Numbers) -> Floats:
    """Return the sum of each item's values, the largest first."""
    order = np.lexsort((-values, items))
    return np.bincount(items, weights=values[order]).astype(np.float64)


def _places(queries: Numbers) -> Numbers:
    """Return the place of each row among those of its query, from 0; queries are in order."""
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    return np.arange(queries.size) - np.repeat(starts, np.diff(starts, append=queries.size))


def _contributions(
    stacked: pa.Table, inputs: Numbers, candidates: int, minima: Floats
) -> Iterator[Contributions]:
    """Yield what rankings hold, some queries at a time.

    Args:
        stacked: tables of :data:`rag_assets.schemas.RUNS`, one below the other.
        inputs: number of the input of each row.
        candidates: how many ranks of each input are read.
        minima: the lowest score that each input could give.
    """
    ranks = stacked["rank"].to_numpy().astype(np.int64)
    rows = np.flatnonzero(ranks <= candidates)
    queries, items = _numbered(stacked["query_id"]), _numbered(stacked["unit_id"])
    scores = stacked["score"].to_numpy()
    rows = rows[np.lexsort((ranks[rows], inputs[rows], items[rows], queries[rows]))]
    rows = rows[_changes(queries[rows], items[rows], inputs[rows])]
    for start, end in _blocks(np.flatnonzero(np.diff(queries[rows], append=-1)) + 1):
        block = rows[start:end]
        of_input = inputs[block]
        numbers = queries[block], items[block], of_input, ranks[block]
        yield Contributions(block, *numbers, scores[block], minima[of_input])


def _numbered(ids: pa.ChunkedArray) -> Numbers:
    """Return a number for each id, in the order of their UTF-8 bytes."""
    encoded = ids.dictionary_encode()
    if not len(encoded):
        return np.empty(0, dtype=np.int64)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    order = pc.sort_indices(encoded.chunk(0).dictionary).to_numpy()
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.arange(order.size)
    return places.take(codes)


def _changes(*columns: Numbers) -> npt.NDArray[np.bool_]:
    """Return where any of the columns is another than in the row before."""
    changed = np.zeros(columns[0].size, dtype=bool)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _blocks(ends: Numbers) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of blocks of whole queries, given where each query ends."""
    start = 0
    while start < (ends[-1] if ends.size else 0):
        fitting = int(np.searchsorted(ends, start + MAX_ROWS, side="right")) - 1
        end = int(ends[max(fitting, int(np.searchsorted(ends, start, side="right")))])
        yield start, end
        start = end
