"""Which queries count, and the independent units they make: queries, or clusters of queries.

Questions that were made from the same document rise and fall together, so a cluster is resampled,
and flipped, as one. A mean over queries with the weights w is sum(w * v) / sum(w). Each unit i
enters it with its sums S_i of w * v and W_i of w over its queries that have a value; every method
here needs these two alone. And what all methods that draw share: how often, from which seed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.schemas import column_values

Floats = npt.NDArray[np.float64]

SAME = 1e-12
"""Two values nearer than this are one value; the last bits of a sum carry no meaning."""


@dataclass(frozen=True)
class Units:
    """Sums of every unit, for one column or several.

    Attributes:
        sums: S, shape (units, columns).
        weights: W, of the same shape; 0 where no query of the unit has a value.
    """

    sums: Floats
    weights: Floats

    def column(self, number: int) -> tuple[Floats, Floats]:
        """Return S and W of one column, of those units that have a value in it."""
        sums, weights = self.sums[:, number], self.weights[:, number]
        there = weights > 0
        return sums[there], weights[there]


def units_of(
    values: Floats, weights: Floats | None = None, clusters: Sequence[str] | None = None
) -> Units:
    """Gather queries into units, in the order of the clusters' names.

    Args:
        values: shape (queries, columns); NaN where a query has no value.
        weights: shape (queries,) or (queries, columns), all 1 when absent; 0: it is not there.
        clusters: a name for each query, its own id where it stands alone; None: all do, and keep
            their order.
    """
    rows, n_units = np.arange(len(values)), len(values)
    if clusters is not None:
        number = {name: i for i, name in enumerate(sorted(set(clusters)))}
        rows = np.fromiter((number[name] for name in clusters), np.intp, len(clusters))
        n_units = len(number)
    has_value = ~np.isnan(values)
    weights = np.ones(len(values)) if weights is None else weights
    by_column = weights if weights.ndim == 2 else weights[:, None]
    weighted = np.where(has_value, by_column, 0.0)
    sums = np.zeros((n_units, values.shape[1]))
    totals = np.zeros_like(sums)
    np.add.at(sums, rows, np.where(has_value, values, 0.0) * weighted)
    np.add.at(totals, rows, weighted)
    return Units(sums, totals)


def weighted_mean(sums: Floats, weights: Floats) -> float | None:
    """Return sum(S) / sum(W) by exact summation; None without any weight."""
    total = math.fsum(weights)
    return math.fsum(sums) / total if total > 0 else None


Counting = Sequence[Mapping[str, Any]]
"""query_id, weight, split and cluster of every query; and its relevant documents, where
:func:`rag_assets.evaluation.query_facts.with_shared_documents` added them."""


@dataclass(frozen=True)
class Counted:
    """The answerable queries of one split, in the order of their ids; arrays of shape (queries,).

    ``documents`` are the relevant ones of each query, where tests allow for those that are shared
    (:mod:`rag_assets.statistics.paired_differences`); else None.
    """

    split: str
    query_ids: tuple[str, ...]
    weights: Floats
    clusters: tuple[str, ...]
    documents: tuple[Sequence[str], ...] | None = None

    def values(self, table: pa.Table, column: str) -> Floats:
        """Return a metric of these queries, shape (queries,); NaN where there is no value."""
        if column not in table.column_names:
            return np.full(len(self.query_ids), np.nan)
        by_query = dict(column_values(table, "query_id", column))
        values = [by_query.get(query_id) for query_id in self.query_ids]
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def counted_by_split(counting: Counting, cells: Iterable[pa.Table]) -> Iterator[Counted]:
    """Yield the answerable queries of every split; query metrics (``cells``) say which are."""
    answerable: set[str] = set()
    for table in cells:
        # Without pyarrow.compute, which imports pandas to compare with a number.
        answerable.update(q for q, n in column_values(table, "query_id", "n_relevant") if n)
    return splits_counted(counting, answerable)


def splits_counted(counting: Counting, query_ids: Collection[str]) -> Iterator[Counted]:
    """Yield the chosen queries of each split, in the order of their ids; weight 0 is left out."""
    chosen = sorted(
        (row for row in counting if row["query_id"] in query_ids and row["weight"]),
        key=lambda row: str(row["query_id"]),
    )
    for split in sorted({row["split"] for row in chosen}):
        rows = [row for row in chosen if row["split"] == split]
        yield Counted(
            split,
            tuple([row["query_id"] for row in rows]),
            np.array([row["weight"] for row in rows], dtype=np.float64),
            tuple([row["cluster"] for row in rows]),
            tuple([row["documents"] for row in rows]) if "documents" in rows[0] else None,
        )


BLOCK = 1 << 21
"""How many numbers are drawn at once; 16 MiB of them as float64, whatever the number of queries."""


@dataclass(frozen=True)
class Resampling:
    """How intervals and random tests are computed.

    ``resamples`` sign patterns are drawn. ``seed`` is that
    of numpy's PCG64, which gives the same bits on every machine.
    """

    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    def generator(self) -> np.random.Generator:
        """Return the generator at its beginning: every column sees the same draws."""
        return np.random.Generator(np.random.PCG64(self.seed))


def blocks(n_rows: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of row blocks that hold about :data:`BLOCK` numbers each."""
    step = max(1, BLOCK // max(width, 1))
    for start in range(0, n_rows, step):
        yield start, min(start + step, n_rows)


def on_grid(values: Floats, bound: Floats) -> Floats:
    """Round each column to a binary grid so coarse that its sums are exact.

    Sums of float64 depend on their order, and so on the number of threads of a matrix product. All
    multiples of a power of two that stay below 2^53 of it are float64 numbers, so their sums are
    the same in any order. ``bound``: no sum of the column that is taken is larger in magnitude.
    """
    _, exponent = np.frexp(bound)
    step = np.ldexp(1.0, exponent - 53)
    rounded: Floats = np.round(values / step) * step
    return rounded
