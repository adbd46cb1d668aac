"""The query set ``original``: every query as it stands, as its only variant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rag_assets.schemas import QUERY_VARIANTS


def variants(queries: pa.Table) -> pa.Table:
    """Return one variant, number 0, for each query."""
    zeros = pa.array(np.zeros(queries.num_rows, dtype=np.int32))
    columns = [queries.column("query_id"), zeros, queries.column("text")]
    return QUERY_VARIANTS.check(pa.table(columns, schema=QUERY_VARIANTS.arrow()))
