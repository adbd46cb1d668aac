"""Which queries count, and the independent units they make: queries, or clusters of queries.

Questions that were made from the same document rise and fall together: they are fewer
observations than they seem. All of a cluster is then resampled, and flipped, as one.

A mean over queries with the weights w is sum(w * v) / sum(w). Each unit i enters it with its sums
S_i = sum of w * v and W_i = sum of w over its queries that have a value; so every method here needs
these two alone. Without clusters and weights S_i is the query's value and W_i is 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.statistics.resampling import Floats

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


def units_of(values: Floats, weights: Floats, clusters: Sequence[str]) -> Units:
    """Gather queries into units, in the order of the clusters' names.

    Args:
        values: shape (queries, columns); NaN where a query has no value.
        weights: shape (queries,) or (queries, columns), 0 or more; a query of weight 0 is not
            there.
        clusters: a name for each query; its own id where it stands alone.
    """
    number = {name: i for i, name in enumerate(sorted(set(clusters)))}
    rows = np.fromiter((number[name] for name in clusters), np.intp, len(clusters))
    has_value = ~np.isnan(values)
    by_column = weights if weights.ndim == 2 else weights[:, None]
    weighted = np.where(has_value, by_column, 0.0)
    sums = np.zeros((len(number), values.shape[1]))
    totals = np.zeros_like(sums)
    np.add.at(sums, rows, np.where(has_value, values, 0.0) * weighted)
    np.add.at(totals, rows, weighted)
    return Units(sums, totals)


def weighted_mean(sums: Floats, weights: Floats) -> float | None:
    """Return sum(S) / sum(W) by exact summation; None without any weight."""
    total = math.fsum(weights)
    return math.fsum(sums) / total if total > 0 else None


@dataclass(frozen=True)
class Counted:
    """The answerable queries of one split, in the order of their ids.

    Attributes:
        split: ``all``, ``dev`` or ``test``.
        query_ids: the queries.
        weights: shape (queries,): how much each counts in a mean.
        clusters: a name for each query; those that share one were made from the same source.
        documents: the relevant documents of each query, where those that share some are tested
            with an allowance for it (:mod:`rag_assets.statistics.shared_evidence`); else None.
    """

    split: str
    query_ids: tuple[str, ...]
    weights: Floats
    clusters: tuple[str, ...]
    documents: tuple[Sequence[str], ...] | None = None

    def values(self, table: pa.Table, column: str) -> Floats:
        """Return a metric of these queries, shape (queries,); NaN where there is no value.

        Args:
            table: of :data:`rag_assets.schemas.QUERY_METRICS`.
            column: the metric; one that the table lacks has no values.
        """
        if column not in table.column_names:
            return np.full(len(self.query_ids), np.nan)
        pairs = zip(table["query_id"].to_pylist(), table[column].to_pylist(), strict=True)
        by_query = dict(pairs)
        values = [by_query.get(query_id) for query_id in self.query_ids]
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def counted_by_split(counting: pa.Table, cells: Iterable[pa.Table]) -> Iterator[Counted]:
    """Yield the answerable queries of every split, in the order of the splits' names.

    A query of weight 0 is left out.

    Args:
        counting: query_id, weight, split, cluster of every query; and its relevant documents where
            :func:`rag_assets.evaluation.query_facts.with_shared_documents` added them.
        cells: tables of :data:`rag_assets.schemas.QUERY_METRICS`, which know what is answerable.
    """
    answerable: set[str] = set()
    for table in cells:
        answerable.update(table.filter(pc.greater(table["n_relevant"], 0))["query_id"].to_pylist())
    rows = sorted(
        (row for row in counting.to_pylist() if row["query_id"] in answerable and row["weight"]),
        key=lambda row: str(row["query_id"]),
    )
    for split in sorted({row["split"] for row in rows}):
        chosen = [row for row in rows if row["split"] == split]
        yield Counted(
            split,
            tuple(row["query_id"] for row in chosen),
            np.array([row["weight"] for row in chosen], dtype=np.float64),
            tuple(row["cluster"] for row in chosen),
            tuple(row["documents"] for row in chosen) if "documents" in chosen[0] else None,
        )


def splits_counted(counting: pa.Table, query_ids: Collection[str]) -> Iterator[Counted]:
    """Yield those of some queries that count, of each split, in the order of their ids.

    Args:
        counting: query_id, weight, split, cluster of every query.
        query_ids: others are left out.
    """
    chosen = sorted(
        (row for row in counting.to_pylist() if row["query_id"] in query_ids and row["weight"]),
        key=lambda row: str(row["query_id"]),
    )
    for split in sorted({row["split"] for row in chosen}):
        rows = [row for row in chosen if row["split"] == split]
        yield Counted(
            split,
            tuple(row["query_id"] for row in rows),
            np.array([row["weight"] for row in rows], dtype=np.float64),
            tuple(row["cluster"] for row in rows),
        )
