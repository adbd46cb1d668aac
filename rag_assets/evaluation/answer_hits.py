"""``answer_hit@k``: whether a gold answer stands in one of the first k returned texts.

It asks the texts themselves and no judgment, so a passage counts that nobody judged; and one that
holds the words of the answer by chance counts too. :mod:`rag_assets.evaluation.answer_text` says
what "stands in" means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.evaluation.answer_text import bounded, normalised
from rag_assets.evaluation.contexts import text_of
from rag_assets.evaluation.metrics import Cell
from rag_assets.evaluation.returned_texts import create_returned, register_cells, split_cells
from rag_assets.in_memory import in_memory

if TYPE_CHECKING:
    import duckdb

MEASURES = ("answer_hit",)
"""What this module computes."""

# A text is normalised once and a (query, text) pair looked at once, however many runs hold it.
_SPANS = """
SELECT DISTINCT document_id, start, "end"
FROM returned JOIN (SELECT DISTINCT query_id FROM answers) USING (query_id)
"""

_HITS = """
WITH pairs AS (
    SELECT DISTINCT query_id, text_number
    FROM returned JOIN spans USING (document_id, start, "end")
    WHERE query_id IN (SELECT query_id FROM answers)
), hits AS (
    SELECT DISTINCT query_id, text_number
    FROM pairs JOIN answers USING (query_id) JOIN texts USING (text_number)
    WHERE contains(texts.text, answers.answer)
), firsts AS (
    SELECT run, query_id, min(rank) AS rank
    FROM returned
    JOIN spans USING (document_id, start, "end")
    JOIN hits USING (query_id, text_number)
    GROUP BY ALL
)
SELECT run, top_k, query_id,
       CASE WHEN query_id IN (SELECT query_id FROM answers)
            THEN coalesce(rank <= top_k, false)::DOUBLE END AS answer_hit
FROM wanted LEFT JOIN firsts USING (run, query_id)
ORDER BY run, top_k, query_id
"""


def answer_hits(
    runs: Mapping[str, pa.Table],
    contexts: Mapping[str, pa.Table],
    read_by: Mapping[str, str],
    queries: pa.Table,
    cutoffs: Iterable[Cell],
    *,
    column: str,
    documents: Mapping[str, str],
    answers: pa.Table,
) -> dict[Cell, pa.Table]:
    """Return ``answer_hit`` of every query, run and cut-off.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        contexts: name -> table of :data:`rag_assets.schemas.RETRIEVER_CONTEXTS`.
        read_by: run -> the name of its contexts.
        queries: a table with the column ``query_id``; each gets a row, retrieved or not.
        cutoffs: the (run, k) pairs that are wanted.
        column: the column of a run that names the text, see
            :func:`rag_assets.evaluation.contexts.context_column`.
        documents: the texts of the documents by id.
        answers: columns ``query_id`` and ``answers`` (list of strings; any of them is right).

    Returns:
        (run, k) -> table with ``query_id`` and ``answer_hit`` (float64, 0 or 1; null for a query
        without an answer that normalisation leaves anything of), sorted by query id.
    """
    cells = list(cutoffs)
    with in_memory() as connection:
        create_returned(connection, runs, contexts, read_by, column)
        register_cells(connection, queries, cells)
        connection.register("answers", _wanted_answers(answers))
        spans = connection.sql(_SPANS).to_arrow_table()
        _register_texts(connection, spans, documents)
        table = connection.sql(_HITS).to_arrow_table()
    return split_cells(table, cells)


def _wanted_answers(answers: pa.Table) -> pa.Table:
    """Return the distinct normalised answers, one a row."""
    rows = {
        (row["query_id"], found): None
        for row in answers.to_pylist()
        for answer in row["answers"] or ()
        if (found := normalised(answer))
    }
    return pa.table(
        {
            "query_id": pa.array([query_id for query_id, _ in rows], pa.string()),
            "answer": pa.array([bounded(answer) for _, answer in rows], pa.string()),
        }
    )


def _register_texts(
    connection: duckdb.DuckDBPyConnection, spans: pa.Table, documents: Mapping[str, str]
) -> None:
    """Register ``spans`` with a number a text, and ``texts``: the normalised text of each number.

    Spans with the same text share it.
    """
    numbers: dict[str, int] = {}
    places = [spans[name].to_pylist() for name in ("document_id", "start", "end")]
    found = [
        numbers.setdefault(text_of(documents, span), len(numbers))
        for span in zip(*places, strict=True)
    ]
    texts = pa.table(
        {
            "text_number": pa.array(range(len(numbers)), pa.int64()),
            "text": pa.array([bounded(normalised(text)) for text in numbers], pa.string()),
        }
    )
    connection.register("spans", spans.append_column("text_number", pa.array(found, pa.int64())))
    connection.register("texts", texts)
