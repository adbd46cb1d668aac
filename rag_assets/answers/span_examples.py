"""What a span reader learns from: questions, and where in a document their answers stand."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.answers.span_reader import Example
from rag_assets.evaluation.query_facts import answers_of
from rag_assets.sources.squad import SquadDataset


def labelled_examples(
    questions: Mapping[str, str],
    answers: Mapping[str, Collection[str]],
    qrels: pa.Table,
    documents: Mapping[str, str],
) -> list[Example]:
    """Return an example for each document that holds evidence of a question.

    The spans are those at which a right answer stands inside the evidence, letter for letter. Of a
    question without a right answer they are the evidence, and of evidence without a right answer
    in it there is no example.

    Args:
        questions: query id -> text, of the questions that may be learned from.
        answers: query id -> right answers.
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        documents: document id -> text.
    """
    spans: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for row in qrels.to_pylist():
        query_id, document_id = row["query_id"], row["document_id"]
        if row["grade"] > 0 and query_id in questions and document_id in documents:
            own = spans.setdefault((query_id, document_id), set())
            own.update(_spans(documents[document_id], row, answers.get(query_id, ())))
    return [
        Example(questions[query_id], documents[document_id], sorted(found))
        for (query_id, document_id), found in sorted(spans.items())
        if found
    ]


def file_examples(path: Path) -> list[Example]:
    """Return the examples of a file in SQuAD's layout.

    Raises:
        DataError: it cannot be read, or has another form.
    """
    dataset = SquadDataset.open(path)
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    ids, texts = (queries[name].to_pylist() for name in ("query_id", "text"))
    metadata = zip(ids, queries["metadata"].to_pylist(), strict=True)
    answers = {query_id: answers_of(json.loads(fields)) or () for query_id, fields in metadata}
    qrels = dataset.read_qrels(documents, queries).table
    by_id = zip(documents["document_id"].to_pylist(), documents["text"].to_pylist(), strict=True)
    return labelled_examples(dict(zip(ids, texts, strict=True)), answers, qrels, dict(by_id))


def _spans(
    text: str, evidence: Mapping[str, Any], answers: Collection[str]
) -> Iterator[tuple[int, int]]:
    start = evidence["start"] if evidence["start"] is not None else 0
    end = evidence["end"] if evidence["end"] is not None else len(text)
    if not answers and evidence["start"] is not None:
        yield start, end
    for answer in filter(None, answers):
        at = text.find(answer, start, end)
        while at >= 0:
            yield at, at + len(answer)
            at = text.find(answer, at + 1, end)
