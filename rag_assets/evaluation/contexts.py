"""What is returned for a chunk, and how many tokens that is.

A retriever searches chunks and returns the parent of a chunk that has one, else the chunk. What is
returned is text of the document, ``text[start:end]``; titles and headings, which are indexed with
it, are not counted.

With ``expand`` the units beside a hit are returned with it, as one span, from the first character
of its window to the last: chunks that overlap repeat nothing, and what lies between them is part of
it.

For the measures of contexts runs are joined with the texts that they return; their tokens are what
a context of k units costs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_inputs import Cell, by_cell, cutoff_table, pairs, stacked
from rag_assets.evaluation.units import unit_ids
from rag_assets.schemas import CONTEXTS, RETRIEVER_CONTEXTS
from rag_assets.scratch_duckdb import scratch_connection

if TYPE_CHECKING:
    import duckdb

CountTokens = Callable[[Sequence[str]], list[int]]
"""The number of tokens of each text."""


Span = tuple[str, int, int]
"""A document and the characters ``[start, end)`` of its text."""

_DIGEST_BYTES = 16


def contexts(chunks: pa.Table, documents: Mapping[str, str], count: CountTokens) -> pa.Table:
    """Return what is returned for every chunk.

    Args:
        chunks: table of :data:`rag_assets.schemas.CHUNKS`.
        documents: the texts of the documents by id; may be empty where no chunk has a parent.
        count: counts tokens; each distinct span is counted once.

    Returns:
        Table of :data:`rag_assets.schemas.CONTEXTS`, in the order of the chunks.
    """
    starts = pc.coalesce(chunks["parent_start"], chunks["start"])
    ends = pc.coalesce(chunks["parent_end"], chunks["end"])
    spans: list[Span] = list(_spans(chunks["document_id"], starts, ends))
    has_parent = pc.is_valid(chunks["parent_chunk_id"]).to_pylist()
    texts: dict[Span, str] = {}
    for span, parent, text in zip(spans, has_parent, chunks["text"].to_pylist(), strict=True):
        if span not in texts:
            texts[span] = text_of(documents, span) if parent else text
    tokens = dict(zip(texts, count(list(texts.values())), strict=True))
    digests = {span: text_digest(text) for span, text in texts.items()}
    columns = {
        "chunk_id": chunks["chunk_id"],
        "unit_id": unit_ids(chunks, "evidence"),
        "document_id": chunks["document_id"],
        "start": starts,
        "end": ends,
        "n_tokens": pa.array([tokens[span] for span in spans], pa.int64()),
        "text_digest": pa.array([digests[span] for span in spans], pa.string()),
    }
    return CONTEXTS.check(pa.table(columns, schema=CONTEXTS.arrow()).combine_chunks())


def of_retriever(tables: Sequence[pa.Table], judge: str) -> pa.Table:
    """Return the texts that a retriever can return, by what stands for them in its runs.

    Args:
        tables: :data:`rag_assets.schemas.CONTEXTS` of all chunkings that its runs can hold.
        judge: the unit that is judged; see :func:`context_column`.

    Returns:
        Table of :data:`rag_assets.schemas.RETRIEVER_CONTEXTS`, sorted by id. Where documents are
        judged and a fusion's chunkings return different texts for the same chunk, it is the
        longest: a run does not say which of them it was.
    """
    id_column = context_column(judge)
    table = pa.concat_tables(tables)
    others = list(RETRIEVER_CONTEXTS.arrow().names[1:])
    table = table.select([id_column, *others]).rename_columns(["context_id", *others])
    longest = [("context_id", "ascending"), ("n_tokens", "descending"), ("start", "ascending")]
    table = table.sort_by(longest).combine_chunks()
    ids = table["context_id"]
    if not len(ids):
        return RETRIEVER_CONTEXTS.empty()
    is_first = pc.not_equal(ids[1:].combine_chunks(), ids[:-1].combine_chunks())
    keep = pa.concat_arrays([pa.array([True]), is_first])
    return RETRIEVER_CONTEXTS.check(table.filter(keep).combine_chunks())


def context_column(judge: str) -> str:
    """Return the column of a run that says which text was returned.

    A unit is one text, but a document that is judged as a whole is returned as its best chunk.
    """
    return "chunk_id" if judge == "document" else "unit_id"


def text_of(documents: Mapping[str, str], span: Span) -> str:
    """Return the text of a span."""
    document_id, start, end = span
    return documents[document_id][start:end]


def _spans(ids: pa.ChunkedArray, starts: pa.ChunkedArray, ends: pa.ChunkedArray) -> Iterable[Span]:
    return zip(ids.to_pylist(), starts.to_pylist(), ends.to_pylist(), strict=True)


def text_digest(text: str) -> str:
    """Return what stands for a text in a table of contexts."""
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * _DIGEST_BYTES]


def with_neighbours(units: pa.Table, neighbours: int) -> pa.Table:
    """Return a table of spans with each span grown over its neighbours.

    The units of a document are its different spans, by start, then end; those with equal spans are
    one. At the ends of a document a window holds fewer.

    Args:
        units: columns ``document_id``, ``start`` and ``end``, among others; of one chunking.
        neighbours: how many units on either side; 0 changes nothing.
    """
    if not units.num_rows:
        return units
    names = units.column("document_id").combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    starts, ends = (units.column(name).to_numpy() for name in ("start", "end"))
    spans, rows = np.unique(np.stack([codes, starts, ends]), axis=1, return_inverse=True)
    first, last = spans[1].copy(), spans[2].copy()
    for step in range(1, min(neighbours, spans.shape[1] - 1) + 1):
        beside = spans[0, step:] == spans[0, :-step]
        first[step:] = np.where(beside, np.minimum(first[step:], spans[1, :-step]), first[step:])
        last[step:] = np.where(beside, np.maximum(last[step:], spans[2, :-step]), last[step:])
        first[:-step] = np.where(beside, np.minimum(first[:-step], spans[1, step:]), first[:-step])
        last[:-step] = np.where(beside, np.maximum(last[:-step], spans[2, step:]), last[:-step])
    rows = rows.reshape(-1)
    for name, values in (("start", first), ("end", last)):
        place = units.schema.get_field_index(name)
        column = pa.array(values[rows], units.schema.field(name).type)
        units = units.set_column(place, units.schema.field(name), column)
    return units


def expanded_contexts(
    contexts: pa.Table, neighbours: int, documents: Mapping[str, str], count: CountTokens
) -> pa.Table:
    """Return what is returned for every chunk together with its neighbours.

    Args:
        contexts: table of :data:`rag_assets.schemas.CONTEXTS`, of one chunking.
        neighbours: how many units on either side.
        documents: the texts of the documents by id.
        count: counts tokens; each distinct span is counted once.

    Returns:
        Table of :data:`rag_assets.schemas.CONTEXTS`, in the same order.
    """
    table = with_neighbours(contexts, neighbours)
    columns = (table[name].to_pylist() for name in ("document_id", "start", "end"))
    spans = list(zip(*columns, strict=True))
    texts = {span: text_of(documents, span) for span in dict.fromkeys(spans)}
    tokens = dict(zip(texts, count(list(texts.values())), strict=True))
    digests = {span: text_digest(text) for span, text in texts.items()}
    for name, values in (("n_tokens", tokens), ("text_digest", digests)):
        field = CONTEXTS.arrow().field(name)
        place = table.schema.get_field_index(name)
        table = table.set_column(place, field, pa.array([values[s] for s in spans], field.type))
    return CONTEXTS.check(table.combine_chunks())


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
        column: the column of a run that names the text, see :func:`context_column`.
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
        column: the column of a run that names the text, see :func:`context_column`.

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
