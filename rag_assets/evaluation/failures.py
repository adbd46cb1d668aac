"""Queries on which a retriever failed: they have no value, which is not the value 0."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.schemas import QUERY_METRICS


def without_failed(table: pa.Table, failed: Collection[str]) -> pa.Table:
    """Return query metrics in which all metrics of failed queries are null.

    A query for which nothing was retrieved, without a failure, keeps its zeros: that is a result.

    Args:
        table: table of :data:`rag_assets.schemas.QUERY_METRICS`.
        failed: ids of queries; those that the table lacks are passed over.
    """
    ids = pa.array(sorted(failed), pa.string())
    mask = pc.is_in(table.column("query_id"), value_set=ids)
    counts = QUERY_METRICS.arrow().names
    for number, name in enumerate(table.column_names):
        column = table.column(name)
        if name == "failed":
            table = table.set_column(number, name, mask)
        elif name not in counts:
            nulls = pa.nulls(table.num_rows, column.type)
            table = table.set_column(number, name, pc.if_else(mask, nulls, column))
    return table
