"""The best rows of sums of columns, for many queries at once: exact, by sums in float32.

Sums in float64 of all rows, and a sort of them, are most of the work of a search. Here

1. the columns of each query are added in float32, the long ones as arrays over all rows
   (:mod:`rag_assets.retrieval.lexical.dense_columns`), the others entry by entry;
2. the k-th highest of the maxima of groups of rows is at most the k-th highest sum
   (:mod:`.lexical.row_grid`); only rows that reach it, less a margin wider than any
   rounding, can be among the best: a little more than k of them;
3. for these the sums are formed again, in float64 and in the order of the query, so that they have
   the bits of :func:`rag_assets.retrieval.lexical.column_sums.column_sums`; and they are sorted.

Each step is done for a block of queries at once, since a call of numpy takes as long as adding a
thousand numbers, and a small corpus has not many more.

A sum of n values, each rounded to float32, is off by less than a share of (n + 1) / 2**24 (Higham:
Accuracy and Stability of Numerical Algorithms, 2002, section 4.2; no value is negative).

Tried, at 1,000 to 1,000,000 chunks: MaxScore (Turtle and Flood, 1995), which leaves out the columns
of frequent words, takes some 60 calls of numpy a query, and 1.3 to 4 times as long; sums of a block
by ``np.bincount`` in float64, with no third step, twice as long from 10,000 chunks on; slices of
the columns, concatenated, instead of the numbers of their entries: a sixth less at 1,000,000
chunks, a quarter more at 1,000. At 1,000 to 100,000 chunks: the first two steps for only so many
queries at once as a core's own cache holds, the same time; the long columns added for all queries
at once by arrays of their places, at 1,000 chunks, four times as long as in a loop; columns with
more than a 32nd of the rows as arrays too, a few per cent less for twice the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from rag_assets.errors import UsageError
from rag_assets.ordering import Hits, Positions, best_above_zero
from rag_assets.retrieval.lexical.column_sums import column_sums
from rag_assets.retrieval.lexical.query_block import Candidates, Places, QueryBlock
from rag_assets.retrieval.lexical.query_terms import Terms
from rag_assets.retrieval.lexical.row_grid import Grid
from rag_assets.retrieval.lexical.row_order import RowOrder
from rag_assets.retrieval.lexical.sparse_columns import SparseColumns

AT_ONCE = 512
"""Queries in a block at most: the sums of more, of a thousand rows, leave a core's own cache."""

CELLS = 1 << 20
"""Sums that are formed at once, or those of one query; half or twice as many take no less time."""

ROOM = 160
"""Cells for which a row counts that is wanted: what is added again is to stay in that cache too."""

ADDED = 1 << 22
"""Values that are added again at most; of more, as where most rows are tied, all are added."""


def best_rows(
    matrix: SparseColumns,
    vocabulary: Mapping[str, int],
    queries: Iterable[Sequence[str]],
    ids_rank: Positions,
    k: int,
) -> Iterator[Hits]:
    """Yield for each query the ``k`` rows with the highest sum above 0 of its columns.

    Args:
        matrix: the columns.
        vocabulary: token -> number of its column.
        queries: tokens each; one that is repeated is added as often, an unknown one adds nothing.
        ids_rank: place of each row's id in byte order, shape (n_rows,).
        k: rows at most.

    Raises:
        UsageError: ``k`` is below 1.
    """
    if k < 1:
        raise UsageError(f"k is {k}; at least 1 item must be asked for")
    grid = Grid.of(matrix.n_rows, k)
    order = RowOrder.of(ids_rank)
    at_once = min(AT_ONCE, max(1, CELLS // max(grid.cells, ROOM * k)))
    waiting = iter(queries)
    while wanted := [*islice(waiting, at_once)]:
        terms = Terms.of(wanted, vocabulary)
        block = QueryBlock(matrix, terms, len(wanted), grid)
        few = block.candidates(k, order) if block.add() else None
        if few is not None and few.rows.size * block.length <= ADDED:
            yield from _ranked(few, block.scores(few), k)
        else:
            every = map(terms.of_query, range(len(wanted)))
            yield from (_best_of_all(matrix, columns, ids_rank, k) for columns in every)


def _best_of_all(
    matrix: SparseColumns, columns: Sequence[int], ids_rank: Positions, k: int
) -> Hits:
    sums = column_sums(matrix.data, matrix.indices, matrix.indptr, columns, matrix.n_rows)
    return best_above_zero(sums, ids_rank, k)


def _ranked(candidates: Candidates, scores: npt.NDArray[np.float64], k: int) -> Iterator[Hits]:
    """Yield the best of each query: candidates come by rank of the id, which the sort keeps."""
    n_queries, most = candidates.counts.size, int(candidates.counts.max())
    firsts = np.arange(n_queries) * most
    before = firsts - candidates.counts.cumsum() + candidates.counts
    places = np.arange(scores.size) + before.take(candidates.queries)
    totals = np.zeros(n_queries * most)
    totals[places] = scores
    rows = np.zeros(n_queries * most, dtype=np.int64)
    rows[places] = candidates.rows
    ascending, ordered = _sorted(totals.reshape(n_queries, most), firsts[:, None])
    best_totals = ordered[:, : -k - 1 : -1]
    best_rows_of = rows.take(ascending[:, : -k - 1 : -1])
    counts = (best_totals > 0).sum(axis=1).tolist()
    width = best_totals.shape[1]
    for found, sums, n in zip(best_rows_of, best_totals, counts, strict=True):
        yield Hits(found, sums) if n == width else Hits(found[:n], sums[:n])


def _sorted(
    totals: npt.NDArray[np.float64], firsts: Places
) -> tuple[Places, npt.NDArray[np.float64]]:
    """Return the places, from the first one of each row on, that sort it; and what stands there.

    Equal values keep their order, by which numpy's stable sort takes twice as long: places within a
    run of equal values are sorted after it.
    """
    places = totals.argsort(axis=1) + firsts
    ordered = totals.take(places)
    runs = np.zeros(totals.shape, dtype=np.intp)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=runs[:, 1:])
    runs *= totals.size
    places += runs
    places.sort(axis=1)
    places -= runs
    return places, ordered
