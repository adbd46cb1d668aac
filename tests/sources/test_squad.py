from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.sources import open_dataset

CONTEXT = "Rollo led the Norse. The Norse came from Denmark."


def question(number: str, *answers: tuple[str, int | None], **more: Any) -> dict[str, Any]:
    listed = [
        {"text": text} if start is None else {"text": text, "answer_start": start}
        for text, start in answers
    ]
    return {"id": number, "question": f"{number}?", "answers": listed, **more}


def squad(*paragraphs: tuple[str, list[dict[str, Any]]], title: str = "The Normans") -> str:
    listed = [{"context": context, "qas": qas} for context, qas in paragraphs]
    return json.dumps({"version": "v2.0", "data": [{"title": title, "paragraphs": listed}]})


def whole(documents: pa.Table) -> pa.Table:
    """Return the chunks of the chunking `none`."""
    ids, texts = documents.column("document_id"), documents.column("text")
    start = pa.array([0] * documents.num_rows, pa.int64())
    end = pc.utf8_length(texts).cast(pa.int64())
    columns = [ids, ids, start, end, documents.column("title"), texts]
    return pa.table(columns, names=["chunk_id", "document_id", "start", "end", "title", "text"])


def test_answers_are_alternatives_of_one_evidence(write: Any, read_all: Any) -> None:
    qas = [
        question("a", ("Rollo", 0), ("Rollo led", 0), ("Rollo", 0)),
        question("b", is_impossible=True, plausible_answers=[{"text": "x"}]),
    ]
    folder = write({"a.json": squad((CONTEXT, qas), ("Other.", []), (CONTEXT, []))})
    dataset = open_dataset(folder / "a.json")
    assert (dataset.format, dataset.default_judge, dataset.default_chunking) == (
        "squad",
        "evidence",
        "none",
    )
    documents, queries, qrels = read_all(dataset)
    assert [tuple(row.values()) for row in documents.table.to_pylist()] == [
        ("The_Normans_p00", "The Normans", CONTEXT, "{}"),
        ("The_Normans_p01", "The Normans", "Other.", "{}"),
    ]
    assert documents.notes == ["1 repeated context is one document: The_Normans_p00"]
    metadata = [json.loads(text) for text in queries.table.column("metadata").to_pylist()]
    assert metadata == [
        {"answers": ["Rollo", "Rollo led"], "paragraph": "The_Normans_p00"},
        {
            "is_impossible": True,
            "paragraph": "The_Normans_p00",
            "plausible_answers": [{"text": "x"}],
        },
    ]
    assert [tuple(row.values()) for row in qrels.table.to_pylist()] == [
        ("a", "The_Normans_p00", "The_Normans_p00", 0, 5, 1),
        ("a", "The_Normans_p00", "The_Normans_p00", 0, 9, 1),
    ]
    assert qrels.notes == ["1 query without a relevant document: b"]


def test_repairs_are_counted(write: Any, read_all: Any) -> None:
    qas = [question("a", ("Denmark", 3)), question("b", ("Rollo", None)), question("c")]
    _, queries, qrels = read_all(open_dataset(write({"a.json": squad((CONTEXT, qas))}) / "a.json"))
    assert qrels.table.column("start").to_pylist() == [41, 0]
    assert qrels.notes[0] == (
        "2 times answer_start is corrected to the one place of its text, in questions: a, b"
    )
    assert queries.notes == ["1 question has no answer and is not marked is_impossible: c"]


def test_answers_without_a_place_are_left_out_and_counted(write: Any, read_all: Any) -> None:
    """As in CMRC 2018: free wording, ``answer_start: -1``, beside an answer that stands there."""
    qas = [
        question("kept", ("the leader Rollo", -1), ("Rollo", 0), ("Rollo, led", 0)),
        question("lost", ("nobody knows", -1), ("Norse", None), (" ", 5)),
        question("c", ("Denmark", 41)),
    ]
    folder = write({"a.json": squad((CONTEXT, qas))})
    _, queries, qrels = read_all(open_dataset(folder / "a.json"))
    assert queries.notes == []
    texts = [json.loads(row).get("answers") for row in queries.table["metadata"].to_pylist()]
    assert texts == [["Rollo"], None, ["Denmark"]]
    labels = zip(*(qrels.table[name].to_pylist() for name in ("query_id", "start")), strict=True)
    assert list(labels) == [("kept", 0), ("c", 41)]
    assert qrels.notes == [
        "5 answers are left out: blank, not in its paragraph, or more than once there: "
        "kept 'the leader Rollo', kept 'Rollo, led', lost 'nobody knows', lost 'Norse', lost ' '",
        "1 question has no label, because none of its answers can be used: lost",
        "1 query without a relevant document: lost",
    ]


def test_articles_of_one_title_count_on(write: Any, read_all: Any) -> None:
    content = json.loads(squad(("A.", [question("a", ("A", 0))])))
    content["data"] += json.loads(squad(("B.", []), title="The_Normans"))["data"]
    folder = write({"a.json": json.dumps(content)})
    documents = read_all(open_dataset(folder / "a.json"))[0].table
    assert documents.column("document_id").to_pylist() == ["The_Normans_p00", "The_Normans_p01"]


@pytest.mark.real_data
def test_dev_set(shared_data: Any, read_all: Any) -> None:
    folder = shared_data("squad_dev_v2")
    documents, queries, qrels = read_all(open_dataset(folder / "dev-v2.0.rebuilt.json"))
    beir_documents, beir_queries, beir_qrels = read_all(open_dataset(folder))
    assert documents.table.num_rows == 1204
    assert documents.table.equals(beir_documents.table)
    assert queries.table.num_rows == 11873
    texts = ["query_id", "text"]
    assert queries.table.select(texts).equals(beir_queries.table.select(texts))
    assert qrels.notes[0].startswith("5945 queries without a relevant document: ")
    assert len(qrels.notes) == 1
    pairs = {(row["query_id"], row["document_id"]) for row in qrels.table.to_pylist()}
    assert pairs == {(r["query_id"], r["document_id"]) for r in beir_qrels.table.to_pylist()}
    texts_of = dict(
        zip(*(documents.table.column(c).to_pylist() for c in ("document_id", "text")), strict=True)
    )
    answers = {
        row["query_id"]: json.loads(row["metadata"]).get("answers", [])
        for row in queries.table.to_pylist()
    }
    for row in qrels.table.to_pylist():
        assert texts_of[row["document_id"]][row["start"] : row["end"]] in answers[row["query_id"]]


@pytest.mark.real_data
def test_evidence_of_whole_documents_is_the_document(shared_data: Any, read_all: Any) -> None:
    dataset = open_dataset(shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json")
    documents, _, qrels = (read.table for read in read_all(dataset))
    chunks = whole(documents)
    by_evidence = relevant_units(qrels, chunks, "evidence")
    assert by_evidence.equals(relevant_units(qrels, chunks, "document"))
    assert by_evidence.num_rows == 5928
    assert pc.all(pc.is_valid(by_evidence.column("unit_id"))).as_py()
