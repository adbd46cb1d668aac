"""The columns of query metrics that are about the texts returned: tokens and answer_hit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from rag_assets.code_versions.closure import Root
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.answer_hits import answer_hits
from rag_assets.evaluation.context_tokens import context_tokens
from rag_assets.evaluation.contexts import context_column
from rag_assets.evaluation.contexts_stage import document_texts, retriever_contexts_key
from rag_assets.evaluation.metrics import Cell
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.sources.stage import QUERIES_KEY

_OF_ANSWERS: Mapping[str, Callable[..., dict[Cell, pa.Table]]] = {"answer_hit": answer_hits}


def answer_code(*, wanted: bool) -> list[Root]:
    """Return the root of what looks for answers in texts, where it is wanted."""
    return [f"{__name__}:_OF_ANSWERS[{name}]" for name in ("", *(["answer_hit"] if wanted else []))]


def context_columns(
    context: StageContext,
    runs: Mapping[str, pa.Table],
    read_by: Mapping[str, str],
    cells: Sequence[Cell],
    with_answers: Sequence[Cell],
) -> Iterator[tuple[Cell, str, pa.ChunkedArray]]:
    """Yield (cell, column, values in the order of query ids).

    Args:
        context: gives contexts, queries and their answers.
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        read_by: run -> its retriever.
        cells: for which ``tokens`` is wanted.
        with_answers: for which ``answer_hit`` is wanted too.
    """
    column = context_column(context.experiment.judge)
    contexts = {
        name: context.artifact(retriever_contexts_key(name)).table()
        for name in dict.fromkeys(read_by.values())
    }
    queries = context.artifact(QUERIES_KEY).table()
    tokens = context_tokens(runs, contexts, read_by, queries, cells, column=column)
    for cell, table in tokens.items():
        yield cell, "tokens", table["tokens"]
    if not with_answers:
        return
    hits = _OF_ANSWERS["answer_hit"](
        {name: runs[name] for name, _ in with_answers},
        contexts,
        read_by,
        queries,
        with_answers,
        column=column,
        documents=document_texts(context),
        answers=context.artifact(QUERY_FACTS_KEY).table(),
    )
    for cell, table in hits.items():
        yield cell, "answer_hit", table["answer_hit"]
