"""Which queries count, with what weight, in which split and cluster: tables as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.statistics.resampling import Floats


@dataclass(frozen=True)
class Counted:
    """The answerable queries of one split, in the order of their ids.

    Attributes:
        split: ``all``, ``dev`` or ``test``.
        query_ids: the queries.
        weights: shape (queries,): how much each counts in a mean.
        clusters: a name for each query; those that share one were made from the same source.
    """

    split: str
    query_ids: tuple[str, ...]
    weights: Floats
    clusters: tuple[str, ...]

    def values(self, table: pa.Table, column: str) -> Floats:
        """Return a metric of these queries, shape (queries,); NaN where there is no value.

        Args:
            table: of :data:`rag_assets.schemas.QUERY_METRICS`.
            column: the metric; one that the table lacks has no values.
        """
        if column not in table.column_names:
            return np.full(len(self.query_ids), np.nan)
        pairs = zip(table["query_id"].to_pylist(), table[column].to_pylist(), strict=True)
        found = dict(pairs)
        values = [found.get(query_id) for query_id in self.query_ids]
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def counted_by_split(counting: pa.Table, cells: Iterable[pa.Table]) -> Iterator[Counted]:
    """Yield the answerable queries of every split, in the order of the splits' names.

    A query of weight 0 is left out.

    Args:
        counting: query_id, weight, split, cluster of every query.
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
        )
