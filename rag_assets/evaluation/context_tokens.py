"""How many tokens the retrieved texts of a query have: what a context of k units costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from rag_assets.evaluation.metrics import Cell
from rag_assets.evaluation.returned_texts import create_returned, register_cells, split_cells
from rag_assets.in_memory import in_memory

_TOKENS = """
WITH sums AS (
    SELECT run, top_k, query_id, sum(n_tokens) AS tokens
    FROM returned JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
)
SELECT run, top_k, query_id, coalesce(tokens, 0)::BIGINT AS tokens
FROM wanted LEFT JOIN sums USING (run, top_k, query_id)
ORDER BY run, top_k, query_id
"""


def context_tokens(
    runs: Mapping[str, pa.Table],
    contexts: Mapping[str, pa.Table],
    read_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
    *,
    column: str,
) -> dict[Cell, pa.Table]:
    """Return the tokens of the first k texts of every query, run and cut-off.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        contexts: name -> table of :data:`rag_assets.schemas.RETRIEVER_CONTEXTS`.
        read_by: run -> the name of its contexts.
        queries: a table with the column ``query_id``; each gets a row, retrieved or not.
        cutoffs: the (run, k) pairs that are wanted.
        column: the column of a run that names the text, see
            :func:`rag_assets.evaluation.contexts.context_column`.

    Returns:
        (run, k) -> table with ``query_id`` and ``tokens`` (int64), sorted by query id; 0 where
        nothing was retrieved.
    """
    cells = list(cutoffs)
    with in_memory() as connection:
        create_returned(connection, runs, contexts, read_by, column)
        register_cells(connection, queries, cells)
        table = connection.sql(_TOKENS).to_arrow_table()
    return split_cells(table, cells)
