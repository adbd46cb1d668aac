"""What the inputs of a fusion hold: each item of an input once, at its best rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

ROWS = 1 << 22
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
    def firsts(self) -> Numbers:
        """The first row of each item of a query."""
        return np.flatnonzero(_changes(self.queries, self.items))

    @property
    def sizes(self) -> Numbers:
        """In how many inputs each item of a query is."""
        return np.diff(self.firsts, append=self.rows.size)


def contributions(
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
    queries, items = _numbered(stacked["query_id"]), _numbered(stacked["item_id"])
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
        fitting = int(np.searchsorted(ends, start + ROWS, side="right")) - 1
        end = int(ends[max(fitting, int(np.searchsorted(ends, start, side="right")))])
        yield start, end
        start = end
