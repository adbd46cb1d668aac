"""Vectors of queries as a table of :data:`rag_assets.schemas.QUERY_VECTORS`, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rag_assets.embedding.unit_vectors import Vectors
from rag_assets.schemas import QUERY_VECTORS


def dense_table(variants: pa.Table, vectors: Vectors) -> pa.Table:
    """Return one row a variant of a query, with its vector.

    Args:
        variants: with the columns ``query_id`` and ``variant``.
        vectors: float32, shape (rows, dimension).
    """
    count, dimensions = vectors.shape
    offsets = np.arange(0, (count + 1) * dimensions, dimensions, dtype=np.int32)
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    columns = [variants.column("query_id"), variants.column("variant"), lists]
    return pa.table(columns, schema=QUERY_VECTORS.arrow())


def dense_matrix(table: pa.Table) -> Vectors:
    """Return the vectors of a table, all of the same dimension; float32."""
    vectors = table.column("vector").combine_chunks()
    values: Vectors = vectors.flatten().to_numpy()
    return values.reshape(table.num_rows, -1)
