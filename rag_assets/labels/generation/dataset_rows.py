"""Generated questions as the rows of ``queries.jsonl`` and ``judgments.jsonl``."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from rag_assets.labels.generation.question_generation import QUESTIONS

TAG = "generated"


class DatasetRows(NamedTuple):
    """Rows as :mod:`rag_assets.sources.folder_labels` reads them, one mapping a line."""

    queries: list[dict[str, object]]
    judgments: list[dict[str, object]]


def dataset_rows(questions: pa.Table, documents: pa.Table) -> DatasetRows:
    """Return a query and a judgment for each question.

    The judgment quotes the span that the question was made from, with its place; a span that is
    blank, as that of a document without text, is left out: then the whole document is judged.

    Args:
        questions: table of :data:`QUESTIONS`.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`, those of the questions among them.
    """
    QUESTIONS.check(questions)
    ids, texts = (documents.column(name).to_pylist() for name in ("document_id", "text"))
    text_of = dict(zip(ids, texts, strict=True))
    queries: list[dict[str, object]] = []
    judgments: list[dict[str, object]] = []
    for row in questions.to_pylist():
        made_from = {"source_document": row["document_id"], "source": row["source"]}
        answers = {"answers": [row["answer"]]} if row["answer"] else {}
        head = {"query_id": row["query_id"], "text": row["text"], "tags": [TAG]}
        queries.append({**head, **answers, **made_from})
        quote = text_of[row["document_id"]][row["start"] : row["end"]]
        span = {"quote": quote, "start": row["start"]} if quote.strip() else {}
        judged = {"query_id": row["query_id"], "doc_id": row["document_id"]}
        judgments.append({**judged, **span, "relevance": 1, "source": row["source"]})
    return DatasetRows(queries, judgments)
