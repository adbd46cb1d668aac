"""Vectors of queries as a table of :data:`rag_assets.schemas.QUERY_VECTORS`, and back.

The list of a dense vector holds its components. That of a sparse one holds the numbers of its
components that are not 0, and then their weights in the same order. That of several vectors, one a
token, holds them one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.models.unit_vectors import Vectors
from rag_assets.models.vector_cache import SparseVector, TokenVectors
from rag_assets.schemas import QUERY_VECTORS

MAX_COMPONENTS = 2**24
"""Whole numbers below it are exact in fp32."""


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


def sparse_table(variants: pa.Table, vectors: Sequence[SparseVector]) -> pa.Table:
    """Return one row a variant of a query, with its sparse vector.

    Args:
        variants: with the columns ``query_id`` and ``variant``.
        vectors: one a row.

    Raises:
        DataError: a component's number is 2**24 or more.
    """
    rows = [np.concatenate([v.components.astype(np.float32), v.weights]) for v in vectors]
    if any(v.components.max(initial=0) >= MAX_COMPONENTS for v in vectors):
        raise DataError(f"a sparse vector has more than {MAX_COMPONENTS:,} components")
    lists = pa.array(rows, pa.list_(pa.float32()))
    columns = [variants.column("query_id"), variants.column("variant"), lists]
    return pa.table(columns, schema=QUERY_VECTORS.arrow())


def sparse_vectors(table: pa.Table) -> list[SparseVector]:
    """Return the sparse vectors of a table."""
    found = []
    for row in table.column("vector").combine_chunks():
        numbers = row.values.to_numpy()
        components, weights = np.split(numbers, 2)
        found.append(SparseVector(components.astype(np.int32), weights))
    return found


def token_table(variants: pa.Table, vectors: Sequence[TokenVectors]) -> pa.Table:
    """Return one row a variant of a query, with the vectors of its tokens.

    Args:
        variants: with the columns ``query_id`` and ``variant``.
        vectors: one array a row, shape (tokens, dimension).
    """
    rows = [own.astype(np.float32).reshape(-1) for own in vectors]
    columns = [variants.column("query_id"), variants.column("variant")]
    lists = pa.array(rows, pa.list_(pa.float32()))
    return pa.table([*columns, lists], schema=QUERY_VECTORS.arrow())


def token_vectors(table: pa.Table, dimension: int) -> list[TokenVectors]:
    """Return the vectors of the tokens of each row of a table; float16, (tokens, dimension)."""
    lists = table.column("vector").combine_chunks()
    rows = (np.asarray(row.values.to_numpy(), dtype=np.float16) for row in lists)
    return [row.reshape(-1, dimension) for row in rows]
