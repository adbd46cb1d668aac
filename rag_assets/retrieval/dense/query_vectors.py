"""Vectors of queries as a table of :data:`rag_assets.schemas.QUERY_VECTORS`, and back.

The list of a dense vector holds its components. That of a sparse one holds the numbers of its
components that are not 0, and then their weights in the same order. Each table has a row for each
of ``variants``, which has the columns ``query_id`` and ``variant``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.models.vectors import SparseVector, Vectors
from rag_assets.schemas import QUERY_VECTORS

MAX_COMPONENTS = 2**24
"""Whole numbers below it are exact in fp32."""


def dense_table(variants: pa.Table, vectors: Vectors) -> pa.Table:
    """Return the table of vectors; float32, shape (rows, dimension)."""
    count, dimensions = vectors.shape
    offsets = np.arange(0, (count + 1) * dimensions, dimensions, dtype=np.int32)
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return _table(variants, pa.ListArray.from_arrays(pa.array(offsets), values))


def dense_matrix(table: pa.Table) -> Vectors:
    """Return the vectors of a table, all of the same dimension; float32."""
    values: Vectors = table.column("vector").combine_chunks().flatten().to_numpy()
    return values.reshape(table.num_rows, -1)


def sparse_table(variants: pa.Table, vectors: Sequence[SparseVector]) -> pa.Table:
    """Return the table of sparse vectors, one a row."""
    if any(v.components.max(initial=0) >= MAX_COMPONENTS for v in vectors):
        raise DataError(f"a sparse vector has more than {MAX_COMPONENTS:,} components")
    rows = [np.concatenate([v.components.astype(np.float32), v.weights]) for v in vectors]
    return _table(variants, pa.array(rows, pa.list_(pa.float32())))


def sparse_vectors(table: pa.Table) -> list[SparseVector]:
    """Return the sparse vectors of a table."""
    halves = (np.split(row.values.to_numpy(), 2) for row in table.column("vector").combine_chunks())
    return [SparseVector(components.astype(np.int32), weights) for components, weights in halves]


def _table(variants: pa.Table, vectors: pa.Array) -> pa.Table:
    columns = [variants.column("query_id"), variants.column("variant"), vectors]
    return pa.table(columns, schema=QUERY_VECTORS.arrow())
