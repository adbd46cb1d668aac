"""Small tables of answers, right answers and contexts, made from plain mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_assets.answers.answer_text import Language
from rag_assets.answers.cases import Evidence, Gold, Passage
from rag_assets.answers.cases import Unit as TextUnit
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.stage import answer_metrics
from rag_assets.schemas import ANSWERS

Place = tuple[str, str, int | None, int | None]
"""Evidence id, document, start, end."""

Unit = tuple[str, str, int]
"""Text, document, and where it begins there."""


def answer_table(answers: Mapping[str, str | None], **columns: Mapping[str, Any]) -> pa.Table:
    """Query -> answer, None: failed; and other columns, query -> value."""
    return ANSWERS.from_rows(
        [
            {
                "query_id": query_id,
                "answer": text,
                **{name: values.get(query_id) for name, values in columns.items()},
            }
            for query_id, text in answers.items()
        ]
    )


def gold_table(
    answers: Mapping[str, Sequence[str]],
    evidence: Mapping[str, Sequence[Place]] | None = None,
    unanswerable: Sequence[str] = (),
) -> list[Gold]:
    """Query -> right answers; and its evidence."""
    return [
        Gold(
            query_id,
            query_id not in unanswerable,
            tuple(texts),
            tuple(Evidence(*place) for place in (evidence or {}).get(query_id, ())),
        )
        for query_id, texts in answers.items()
    ]


def context_table(contexts: Mapping[str, Sequence[Unit]]) -> dict[str, list[TextUnit]]:
    """Query -> the units of its context."""
    return {
        query_id: [
            TextUnit(text, Passage(document_id, start, start + len(text)))
            for text, document_id, start in units
        ]
        for query_id, units in contexts.items()
    }


def one_question(
    answer: str | None,
    golds: Sequence[str] = (),
    *,
    answerable: bool = True,
    evidence: Sequence[Place] = (),
    context: Sequence[Unit] | None = None,
    language: Language = "standard",
    **columns: Any,
) -> dict[str, float | None]:
    table = answer_metrics(
        answer_table({"q": answer}, **{name: {"q": value} for name, value in columns.items()}),
        gold_table({"q": golds}, {"q": evidence}, () if answerable else ("q",)),
        None if context is None else context_table({"q": context}),
        list(METRICS),
        language,
    )
    (row,) = table.select(list(METRICS)).to_pylist()
    return dict(row)
