"""The questions of a dataset that a model wrote, each with the passage that it was made from."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from rag_assets.labels.generation.question_generation import QUESTIONS
from rag_assets.labels.generation.question_tables import TAG


def dataset_questions(queries: pa.Table, qrels: pa.Table, documents: pa.Table) -> pa.Table:
    """Return the questions with the tag ``generated``, table of :data:`QUESTIONS`.

    The passage of a question is the first one that its labels call relevant; a question without one
    is left out.

    Args:
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
    """
    columns = (documents[name].to_pylist() for name in ("document_id", "text"))
    lengths = {name: len(text) for name, text in zip(*columns, strict=True)}
    spans: dict[str, Mapping[str, object]] = {}
    for row in qrels.to_pylist():
        if row["grade"] > 0 and row["document_id"] in lengths:
            spans.setdefault(row["query_id"], row)
    rows: list[dict[str, object]] = []
    for query in queries.to_pylist():
        span = spans.get(query["query_id"])
        if TAG not in query["tags"] or span is None:
            continue
        fields = json.loads(query["metadata"])
        document_id = str(span["document_id"])
        place = {"document_id": document_id, "start": 0, "end": lengths[document_id]}
        if span["start"] is not None:
            place |= {"start": span["start"], "end": span["end"]}
        answers = fields.get("answers")
        rows.append(
            {
                "query_id": query["query_id"],
                "text": query["text"],
                "answer": str(answers[0]) if isinstance(answers, list) and answers else None,
                "chunk_id": f"{document_id}#{place['start']}-{place['end']}",
                **place,
                "source": str(fields.get("source", "")),
            }
        )
    return QUESTIONS.from_rows(rows)
