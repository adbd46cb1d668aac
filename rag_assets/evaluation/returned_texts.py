"""Runs joined with the texts that they return, for the measures of contexts, in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metrics import Cell

if TYPE_CHECKING:
    import duckdb

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
    named = {
        name: table.select(["query_id", "rank", column]).rename_columns(
            ["query_id", "rank", "context_id"]
        )
        for name, table in runs.items()
    }
    texts = {name: table.select(list(_TEXT_COLUMNS)) for name, table in contexts.items()}
    pairs = pa.table({"run": list(read_by), "retriever": list(read_by.values())})
    connection.register("runs", _labelled("run", named))
    connection.register("contexts", _labelled("retriever", texts))
    connection.register("read_by", pairs)
    connection.execute(_RETURNED)


def register_cells(
    connection: duckdb.DuckDBPyConnection, queries: pa.Table, cells: Sequence[Cell]
) -> None:
    """Register ``wanted``: a row for each cell and query, with run, top_k and query_id."""
    cutoffs = pa.table(
        {
            "run": pa.array([run for run, _ in cells], pa.string()),
            "top_k": pa.array([top_k for _, top_k in cells], pa.int64()),
        }
    )
    connection.register("cutoffs", cutoffs)
    connection.register("queries", queries.select(["query_id"]))
    connection.execute(
        "CREATE TEMP TABLE wanted AS SELECT run, top_k, query_id FROM cutoffs CROSS JOIN queries"
    )


def split_cells(table: pa.Table, cells: Sequence[Cell]) -> dict[Cell, pa.Table]:
    """Return the rows of each cell without ``run`` and ``top_k``, in the order of ``table``."""
    found = {}
    for run, top_k in cells:
        chosen = pc.and_(pc.equal(table["run"], run), pc.equal(table["top_k"], top_k))
        rows = table.filter(chosen).drop_columns(["run", "top_k"])
        found[run, top_k] = rows.combine_chunks()
    return found


def _labelled(label: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    return pa.concat_tables(
        table.append_column(label, pa.array([name] * table.num_rows, pa.string()))
        for name, table in tables.items()
    )
