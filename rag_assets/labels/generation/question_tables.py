"""Generated questions as queries and labels and back, and who wrote the queries of a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rag_assets.labels.generation.question_generation import QUESTIONS
from rag_assets.labels.pooling.pool import PLACE
from rag_assets.plain_text import shortened
from rag_assets.schemas import QRELS, QUERIES
from rag_assets.store.canonical import canonical_json

TAG = "generated"
"""Tag of every query that a language model wrote."""

SOURCE_DOCUMENT = "source_document"

_NAMED = 3
"""Models that a note names."""


def query_fields(question: Mapping[str, Any]) -> dict[str, object]:
    """Return what a query says besides id, text and tag, of a row of :data:`QUESTIONS`."""
    answers = {"answers": [question["answer"]]} if question["answer"] else {}
    return {**answers, SOURCE_DOCUMENT: question["document_id"], "source": question["source"]}


def queries_of(questions: pa.Table) -> pa.Table:
    """Return a query for each question of a table :data:`QUESTIONS`: ``schemas.QUERIES``."""
    rows = QUESTIONS.check(questions).to_pylist()
    return QUERIES.from_rows(
        [
            {
                "query_id": row["query_id"],
                "text": row["text"],
                "tags": [TAG],
                "metadata": canonical_json({**query_fields(row), "source_chunk": row["chunk_id"]}),
            }
            for row in rows
        ]
    )


def qrels_of(questions: pa.Table) -> pa.Table:
    """Return the span of its chunk as the one evidence of each question, of grade 1."""
    rows = QUESTIONS.check(questions).select(PLACE).to_pylist()
    for row in rows:
        row |= {"evidence_id": f"{row['document_id']}#{row['start']}-{row['end']}", "grade": 1}
    return QRELS.from_rows(rows)


def question_authors(queries: pa.Table) -> Counter[str]:
    """Return model -> how many of the queries it wrote: its name stands in ``source``."""
    found: Counter[str] = Counter()
    for tags, metadata in zip(*(queries[c].to_pylist() for c in ("tags", "metadata")), strict=True):
        source = json.loads(metadata or "{}").get("source") if TAG in (tags or ()) else None
        if isinstance(source, str) and source.strip():
            found[source.split()[0]] += 1  # before the name of the prompt
    return found


def authors_note(queries: pa.Table) -> str | None:
    """Return one line on questions and labels that models wrote; None where there are none."""
    authors = question_authors(queries)
    if not authors:
        return None
    named = [f"{shortened(model)} ({n})" for model, n in authors.most_common(_NAMED)]
    models = ", ".join([*named, *(["others"] if len(authors) > _NAMED else [])])
    n = authors.total()
    return (
        f"{n} of {queries.num_rows} questions and their labels were written by a model, not by "
        f"people: {models}; such questions are easier than those of people"
    )
