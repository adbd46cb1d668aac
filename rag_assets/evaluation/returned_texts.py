"""Runs joined with the texts that they return, for the measures of contexts, in DuckDB.

And how many tokens these texts have: what a context of k units costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.evaluation.cells import Cell, by_cell, cutoff_table, pairs, stacked
from rag_assets.scratch_duckdb import scratch_connection

if TYPE_CHECKING:
    import duckdb


_TOKENS = """
WITH sums AS (
    SELECT run, top_k, query_id, sum(n_tokens) AS tokens
    FROM returned JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
)
SELECT run, top_k, query_id, coalesce(tokens, 0)::BIGINT AS tokens
FROM wanted LEFT JOIN sums USING (run, top_k, query_id)
ORDER BY run, top_k, query_id
"""


_RETURNED = """
CREATE TEMP TABLE returned AS
SELECT run, query_id, rank, n_tokens, document_id, start, "end"
FROM runs JOIN read_by USING (run) JOIN contexts USING (retriever, context_id)
"""

_TEXT_COLUMNS = ("context_id", "document_id", "start", "end", "n_tokens")


def create_returned(
    connection: duckdb.DuckDBPyConnection,
    runs: Mapping[str, pa.Table],
    contexts: Mapping[str, pa.Table],
    read_by: Mapping[str, str],
    column: str,
) -> None:
    """Create the table ``returned``: run, query_id, rank, n_tokens and the span of the text.

    Args:
        connection: where it is created.
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        contexts: name -> table of :data:`rag_assets.schemas.RETRIEVER_CONTEXTS`.
        read_by: run -> the name of its contexts.
        column: the column of a run that names the text, see
            :func:`rag_assets.evaluation.contexts.context_column`.
    """
    names = ("query_id", "rank", "context_id")
    named = {
        name: table.select(["query_id", "rank", column]).rename_columns(list(names))
        for name, table in runs.items()
    }
    connection.register("runs", stacked("run", named, names))
    connection.register("contexts", stacked("retriever", contexts, _TEXT_COLUMNS))
    connection.register("read_by", pairs("run", "retriever", read_by.items()))
    connection.execute(_RETURNED)


def register_cells(
    connection: duckdb.DuckDBPyConnection, queries: pa.Table, cells: Sequence[Cell]
) -> None:
    """Register ``wanted``: a row for each cell and query, with run, top_k and query_id."""
    connection.register("cutoffs", cutoff_table(cells))
    connection.register("queries", queries.select(["query_id"]))
    connection.execute(
        "CREATE TEMP TABLE wanted AS SELECT run, top_k, query_id FROM cutoffs CROSS JOIN queries"
    )


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
    with scratch_connection() as connection:
        create_returned(connection, runs, contexts, read_by, column)
        register_cells(connection, queries, cells)
        table = connection.sql(_TOKENS).to_arrow_table()
    return by_cell(table, cells)
