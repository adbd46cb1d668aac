"""Small tables of answers, right answers and contexts, made from plain mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_assets.answers.answer_text import Language
from rag_assets.answers.cases import ANSWER_CONTEXTS, ANSWERS, GOLDS
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.metrics_stage import answer_metrics

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
) -> pa.Table:
    names = ("evidence_id", "document_id", "start", "end")
    return GOLDS.from_rows(
        [
            {
                "query_id": query_id,
                "answers": list(texts),
                "answerable": query_id not in unanswerable,
                "evidence": [
                    dict(zip(names, place, strict=True))
                    for place in (evidence or {}).get(query_id, ())
                ],
            }
            for query_id, texts in answers.items()
        ]
    )


def context_table(contexts: Mapping[str, Sequence[Unit]]) -> pa.Table:
    return ANSWER_CONTEXTS.from_rows(
        [
            {
                "query_id": query_id,
                "position": position,
                "text": text,
                "document_id": document_id,
                "start": start,
                "end": start + len(text),
            }
            for query_id, units in contexts.items()
            for position, (text, document_id, start) in enumerate(units, 1)
        ]
    )


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
    """Every metric of one answer."""
    table = answer_metrics(
        answer_table({"q": answer}, **{name: {"q": value} for name, value in columns.items()}),
        gold_table({"q": golds}, {"q": evidence}, () if answerable else ("q",)),
        None if context is None else context_table({"q": context}),
        list(METRICS),
        language,
    )
    (row,) = table.select(list(METRICS)).to_pylist()
    return dict(row)
