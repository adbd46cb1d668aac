"""Readers hand over every problem, with file and line, or raise the first."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.labels.findings import FINDINGS, reading_problems
from rag_assets.schemas import QRELS
from rag_assets.sources import Dataset, open_dataset
from rag_assets.sources.dataset import Problems

FOLDER = {
    "fares.md": "# Fares\nA dog costs 10 crowns.\nA cat costs 5 crowns.\nA cat costs 5 crowns.\n",
    "guides/quays.md": "# Quays\nThe north quay opens at six.\n",
    "queries.jsonl": '{"query_id": "q1", "text": "t"}\n{"query_id": "q2", "text": "t"}\n',
    "judgments.jsonl": "\n".join(
        [
            '{"query_id": "q1", "doc_id": "fares.md", "quote": "A dog costs 10 crowns."}',
            '{"query_id": "q9", "doc_id": "fares.md"}',
            '{"query_id": "q1", "doc_id": "fares.md#0-20"}',
            '{"query_id": "q1", "doc_id": "quays"}',
            '{"query_id": "q1", "doc_id": "prices.md"}',
            "{broken",
            '{"query_id": "q1", "doc_id": "fares.md", "quote": "A dog  costs 10 crowns."}',
            '{"query_id": "q1", "doc_id": "fares.md", "quote": "The north quay opens at six."}',
            '{"query_id": "q1", "doc_id": "fares.md", "quote": "A horse", "evidence_id": "e"}',
            '{"query_id": "q1", "doc_id": "fares.md", "quote": "A cat costs"}',
            '{"query_id": "q1", "doc_id": "fares.md", "quote": "A dog costs 10 crowns."}',
            '{"query_id": "q2", "doc_id": "guides/quays.md", "relevance": "high"}',
            '{"query_id": "q2", "doc_id": "guides/quays.md"}',
            '{"query_id": "q2", "doc_id": "fares.md", "quote": "A cat costs", "start": 9}',
            '{"query_id": "q2", "doc_id": "fares.md", "quote": "A cat costs", "start": 45}',
        ]
    ),
}
EXPECTED = [
    (2, "unknown_id", "q9", "query_id: unknown query 'q9'"),
    (3, "id_level", "q1", "doc_id: unknown document 'fares.md#0-20': it is the id of a chunk"),
    (4, "unknown_id", "q1", "doc_id: unknown document 'quays' (did you mean 'guides/quays.md'?)"),
    (5, "unknown_id", "q1", "doc_id: unknown document 'prices.md' (did you mean 'fares.md'?)"),
    (6, "format", None, "malformed JSON at byte 2 (object keys must be strings)"),
    (7, "quote_moved", "q1", "quote: 'A dog  costs 10 crowns.' is not in 'fares.md' as written"),
    (8, "quote_moved", "q1", "quote: 'The north quay opens at six.' is not in 'fares.md'; it is"),
    (9, "quote_vanished", "q1", "quote: 'A horse' is not in 'fares.md'"),
    (10, "quote_twice", "q1", "quote: 'A cat costs' occurs more than once in 'fares.md'"),
    (11, "duplicate_judgment", "q1", "query 'q1' and document 'fares.md', characters 0-22"),
    (12, "format", "q2", "relevance: is 'high'; must be a grade: an integer that fits 32 bits"),
    (14, "quote_twice", "q2", "quote: 'A cat costs' occurs more than once in 'fares.md'"),
]
"""Line, check, query, and how the message begins."""


def write(folder: Path, files: dict[str, str]) -> Dataset:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return open_dataset(folder)


def read_all(dataset: Dataset) -> tuple[pa.Table, pa.Table]:
    qrels = QRELS.empty()
    problems = Problems(collect=True)
    with problems:
        documents, queries = dataset.read_documents(problems), dataset.read_queries(problems)
        qrels = dataset.read_qrels(documents.table, queries.table, problems).table
    return qrels, FINDINGS.from_rows(
        [each._asdict() for each in reading_problems(problems.collected or [])]
    )


def test_every_line_of_a_folder_or_the_first_is_told(tmp_path: Path) -> None:
    qrels, problems = read_all(write(tmp_path, FOLDER))
    found = problems.to_pylist()
    for row, (line, check, query_id, message) in zip(found, EXPECTED, strict=True):
        assert (row["line"], row["check"], row["query_id"]) == (line, check, query_id)
        assert row["message"].startswith(message)
    assert {r["file"] for r in found} == {str(tmp_path / "judgments.jsonl")}
    assert {r["severity"] for r in found} == {"error"}
    assert [r["evidence_id"] for r in found if r["line"] == 9] == ["e"]
    places = zip(*(qrels[name].to_pylist() for name in ("query_id", "start")), strict=True)
    assert list(places) == [("q1", 0), ("q2", None), ("q2", 45)]
    dataset = write(tmp_path, FOLDER)
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    with pytest.raises(DataError, match=r"judgments\.jsonl:2: `query_id`: unknown query 'q9'"):
        dataset.read_qrels(documents, queries)


def test_what_looks_the_same_is_told_to_be_in_another_unicode_normal_form(tmp_path: Path) -> None:
    rows = ['"é.md", "quote": "Un café"', '"e\u0301.md"']
    lines = "\n".join(f'{{"query_id": "q1", "doc_id": {row}}}' for row in rows)
    files = {"é.md": "Un\ncafe\u0301 noir", "judgments.jsonl": lines}
    _, problems = read_all(write(tmp_path, {**FOLDER, **files}))
    moved, unknown = problems.select(["check", "message"]).to_pylist()
    assert moved["check"] == "quote_moved"
    assert "as written, only in another Unicode normal form (NFC, NFD); copy" in moved["message"]
    assert "(did you mean 'é.md', in another Unicode normal form?)" in unknown["message"]


def test_every_line_of_a_beir_folder(tmp_path: Path) -> None:
    files = {
        "corpus.jsonl": '{"_id": "d1", "text": "t"}\n{"_id": 1.5}\n{"_id": "d2"}\n[]\n'
        '{"_id": "d1", "text": "u"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "t"}\n{"_id": "q2", "text": 3}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1 d1\nq1\td7\t1\nq1\td1_3\t1\n"
        "q1\td1\thigh\nq1\td1\t2\n",
    }
    qrels, problems = read_all(write(tmp_path, files))
    found = {(Path(r["file"]).name, r["line"], r["check"]) for r in problems.to_pylist()}
    assert found == {
        ("corpus.jsonl", 2, "format"),
        ("corpus.jsonl", 3, "format"),
        ("corpus.jsonl", 4, "format"),
        ("corpus.jsonl", 5, "duplicate_id"),
        ("queries.jsonl", 2, "format"),
        ("test.tsv", 3, "format"),
        ("test.tsv", 4, "unknown_id"),
        ("test.tsv", 5, "id_level"),
        ("test.tsv", 6, "format"),
        ("test.tsv", 7, "duplicate_judgment"),
    }
    assert problems.num_rows == len(found)
    assert qrels.num_rows == 1


def test_what_ends_a_reader_is_collected_too(tmp_path: Path) -> None:
    dataset = write(tmp_path, FOLDER)
    (tmp_path / "judgments.jsonl").unlink()
    _, problems = read_all(dataset)
    row = problems.to_pylist()[0]
    assert row["check"] == "unreadable"
    assert "judgments.jsonl" in row["message"]


LINE = st.sampled_from(
    [
        '{"query_id": "q1", "doc_id": "a.md"}',
        '{"query_id": "q1", "doc_id": "a.md", "quote": "one"}',
        '{"query_id": "q1", "doc_id": "a.md", "quote": "none"}',
        '{"query_id": "q1", "doc_id": "a", "relevance": 2}',
        '{"query_id": "q2", "doc_id": "a.md"}',
        '{"query_id": "q1", "doc_id": "a.md", "relevance": true}',
        '{"query_id": 1.5}',
        '{"query_id": "q1"',
        "\x00",
        "[]",
    ]
)


@settings(max_examples=50, deadline=None)
@given(lines=st.lists(st.one_of(LINE, st.text(max_size=20)), min_size=1, max_size=8))
def test_the_first_collected_is_the_one_raised_and_no_line_is_lost(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    text = "\n".join(line.replace("\n", " ") for line in lines)
    files = {"a.md": "one two", "queries.jsonl": '{"query_id": "q1", "text": "t"}\n'}
    dataset = write(tmp_path_factory.mktemp("fuzz"), {**files, "judgments.jsonl": text})
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    qrels, raised = QRELS.empty(), None
    try:
        dataset.read_qrels(documents, queries)
    except DataError as error:
        raised = str(error)
    collector = Problems(collect=True)
    with collector:
        qrels = dataset.read_qrels(documents, queries, collector).table
    problems = collector.collected or []
    assert (str(problems[0]) if problems else None) == raised
    n_lines = sum(1 for line in text.encode().split(b"\n") if line.strip())
    if qrels.num_rows:
        assert qrels.num_rows + len(problems) == n_lines
