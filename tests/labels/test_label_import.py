"""Judgments from sheets and feedback, in the label files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.labels.label_import import Added, Votes, add_judgments, grade_of, read_feedback
from rag_assets.labels.pool import Judgment, PooledUnit
from rag_assets.sources.beir import BeirDataset
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.document_folder import MarkdownDataset
from rag_assets.sources.labelled_folder import Columns, JsonlDataset

TEXT = "Fares rise. Fares rise. Dogs travel free.\n"
DOGS = {"query_id": "q1", "chunk_id": "a.md#24-41"}
SECOND = {"query_id": "q1", "chunk_id": "a.md#12-23"}
UP = {"query_id": "q1", "doc_id": "a.md", "vote": "up"}


@pytest.fixture
def folder(tmp_path: Path) -> MarkdownDataset:
    (tmp_path / "a.md").write_text(TEXT, encoding="utf-8")
    write_lines(tmp_path / "queries.jsonl", [{"query_id": "q1", "text": "?"}])
    return MarkdownDataset.open(tmp_path)


def write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def add(dataset: Dataset, *units: tuple[str, int, int, int], judge: str = "evidence") -> Added:
    """Add (document, start, end, grade) for q1."""
    judgments = [
        Judgment(PooledUnit("q1", document, start, end), grade, "pool", line)
        for line, (document, start, end, grade) in enumerate(units, 2)
    ]
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    file = Path("sheet.csv")
    return add_judgments(dataset, judgments, documents, queries, judge=judge, sheet=file)


def qrels(dataset: Dataset) -> list[tuple[Any, ...]]:
    table = dataset.read_qrels(dataset.read_documents().table, dataset.read_queries().table).table
    return [tuple(row.values())[2:] for row in table.to_pylist()]


def test_spans_come_back_as_they_were_judged(folder: MarkdownDataset) -> None:
    """Fares rise. stands at 0 and at 12: the second one needs its start."""
    assert not folder.has_qrels
    added = add(folder, ("a.md", 12, 23, 2), ("a.md", 24, 41, 0))
    assert added == Added(folder.root / "judgments.jsonl", 2, 0, 0)
    assert qrels(folder) == [("a.md", 12, 23, 2), ("a.md", 24, 41, 0)]
    lines = [json.loads(line) for line in added.file.read_text(encoding="utf-8").splitlines()]
    judged = {"query_id": "q1", "doc_id": "a.md", "relevance": 2, "source": "pool"}
    assert lines[0] == {**judged, "quote": "Fares rise.", "start": 12}
    assert "start" not in lines[1]
    assert folder.read_qrels(folder.read_documents().table, folder.read_queries().table).notes == []


def test_lines_that_are_there_stay(folder: MarkdownDataset) -> None:
    file = folder.root / "judgments.jsonl"
    before = '{"query_id": "q1", "doc_id": "a.md", "quote": "Dogs travel free."}'
    file.write_text(before, encoding="utf-8")  # no line end
    file.chmod(0o640)
    add(folder, ("a.md", 0, 11, 1))
    assert file.read_text(encoding="utf-8").startswith(f"{before}\n{{")
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(folder.root.glob("*tmp*")) == []


def test_the_same_again_is_known_and_another_grade_is_a_conflict(folder: MarkdownDataset) -> None:
    add(folder, ("a.md", 24, 41, 1))
    before = (folder.root / "judgments.jsonl").read_bytes()
    added = add(folder, ("a.md", 24, 41, 1))
    assert (added.n_added, added.n_known) == (0, 1)
    with pytest.raises(DataError) as caught:
        add(folder, ("a.md", 24, 41, 2), ("a.md", 0, 11, 1))
    assert str(caught.value) == (
        "sheet.csv:2: query 'q1' and document 'a.md', characters 24-41: grade 2, but the labels "
        "have 1; nothing was imported"
    )
    assert (folder.root / "judgments.jsonl").read_bytes() == before


def test_one_passage_is_one_evidence(folder: MarkdownDataset) -> None:
    """0-42 holds both others: it satisfies them, and R is 2. One of grade 0 is kept."""
    added = add(folder, ("a.md", 0, 42, 2), ("a.md", 12, 23, 1), ("a.md", 24, 41, 1))
    assert (added.n_added, added.n_covered) == (2, 1)
    assert [row[1:3] for row in qrels(folder)] == [(12, 23), (24, 41)]
    assert add(folder, ("a.md", 10, 30, 1)).n_covered == 1  # the labels are enough
    # Of two of which each has half of the other the second one goes.
    assert add(folder, ("a.md", 0, 5, 1), ("a.md", 2, 8, 1)).n_covered == 1


def test_whole_documents_where_documents_are_judged(folder: MarkdownDataset) -> None:
    add(folder, ("a.md", 0, len(TEXT), 1), judge="document")
    assert qrels(folder) == [("a.md", None, None, 1)]
    assert folder.default_judge == "document"


def test_nothing_is_written_when_one_cannot_be(folder: MarkdownDataset) -> None:
    (folder.root / "a.md").write_text("one\n\n\ntwo", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 3: characters 3-6 of 'a.md' are blank"):
        add(folder, ("a.md", 0, 3, 1), ("a.md", 3, 6, 1))
    assert not folder.has_qrels


def test_formats_that_cannot_be_added_to(tmp_path: Path) -> None:
    write_lines(tmp_path / "corpus.jsonl", [{"_id": "d", "text": TEXT}])
    write_lines(tmp_path / "queries.jsonl", [{"_id": "q1", "text": "?"}])
    (tmp_path / "qrels").mkdir()
    with pytest.raises(UsageError, match="cannot be added to a dataset of format beir; allowed: m"):
        add(BeirDataset.open(tmp_path), ("d", 0, 1, 1))
    write_lines(tmp_path / "documents.jsonl", [{"doc_id": "d", "text": "t"}])
    write_lines(tmp_path / "queries.jsonl", [{"query_id": "q1", "text": "?"}])
    (tmp_path / "judgments.csv").write_text("query_id,doc_id\nq1,d\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"judgments are added to judgments\.jsonl only"):
        add(JsonlDataset.open(tmp_path), ("d", 0, 1, 1))


@pytest.mark.parametrize(
    ("up", "down", "grade"),
    [(1, 0, 1), (3, 0, 2), (3, 2, 1), (9, 3, 2), (8, 3, 1), (2, 2, None), (1, 2, 0)],
)
def test_grades_of_votes(up: int, down: int, grade: int | None) -> None:
    assert grade_of(up, down) == grade


def test_feedback_is_summed_by_unit(folder: MarkdownDataset) -> None:
    """a.md#24-41: 2 + 1 up, 1 down: grade 2; a.md: 1 down: 0; a.md#0-11: 1 : 1, undecided."""
    first = {"query_id": "q1", "chunk_id": "a.md#0-11"}
    found = votes(
        folder,
        {**DOGS, "vote": "up", "count": 2},
        {**DOGS, "vote": "up"},
        {**DOGS, "vote": "down"},
        {**UP, "vote": "down"},
        {**first, "vote": "up"},
        {**first, "vote": "down"},
    )
    assert found.n_undecided == 1
    assert found.judgments == [
        (("q1", "a.md", 24, 41), 2, "feedback: 3 up, 1 down", 1),
        (("q1", "a.md", 0, len(TEXT)), 0, "feedback: 0 up, 1 down", 4),
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"query_id": None}, "`query_id`: is missing; found keys: 'doc_id', 'vote'"),
        ({"doc_id": None}, "`doc_id`: needs one of doc_id, chunk_id and answer"),
        ({"vote": "yes"}, "`vote`: is 'yes'; must be one of up, down"),
        ({"doc_id": None, "chunk_id": "a.md#5-99"}, "`chunk_id`: the span 5-99 is not in 'a.md'"),
        ({"count": 0}, "`count`: is 0; must be an integer from 1 on"),
        ({"users": "x"}, "`users`: unknown key; allowed: query_id, vote, doc_id, chunk_id"),
        ({"user": "x", "count": 2}, "`count`: cannot be given together with `user`, who votes"),
        ({"user": ""}, "`user`: is ''; must be an id: a text of one line that is not empty"),
    ],
)
def test_bad_feedback(folder: MarkdownDataset, change: dict[str, Any], problem: str) -> None:
    row = {name: value for name, value in {**UP, **change}.items() if value is not None}
    told = rf"feedback\.jsonl:1: {re.escape(problem)}.*; nothing was imported$"
    with pytest.raises(DataError, match=told):
        votes(folder, row)


def votes(dataset: Dataset, *rows: dict[str, Any]) -> Votes:
    file = dataset.root / "votes" / "feedback.jsonl"
    write_lines(file, list(rows))
    return read_feedback(file, dataset.read_documents().table, dataset.read_queries().table)


def send(dataset: Dataset, *rows: dict[str, Any]) -> tuple[int, ...]:
    """Add votes; return how many were added, were there, and are there with another grade."""
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    judgments = votes(dataset, *rows).judgments
    added = add_judgments(dataset, judgments, documents, queries, judge="evidence")
    return added.n_added, added.n_known, added.n_conflicts


def lines(dataset: Dataset) -> list[tuple[Any, ...]]:
    text = (dataset.root / "judgments.jsonl").read_text(encoding="utf-8")
    names = ("quote", "start", "relevance", "source")
    return [tuple(json.loads(line).get(name) for name in names) for line in text.splitlines()]


def test_feedback_beside_labels_that_name_documents_by_parts(tmp_path: Path) -> None:
    columns = Columns.of({"document_id": ["source", "page"]})
    rows = [{"source": "a", "page": n, "text": text} for n, text in enumerate(("Fares.", "Dogs."))]
    write_lines(tmp_path / "documents.jsonl", rows)
    write_lines(tmp_path / "queries.jsonl", [{"query_id": "q1", "text": "?"}])
    judged = {"query_id": "q1", "source": "a", "page": 0, "quote": "Fares."}
    write_lines(tmp_path / "judgments.jsonl", [judged])
    dataset = replace(JsonlDataset.open(tmp_path), columns=columns)
    assert send(dataset, {**{"query_id": "q1", "doc_id": "a/1"}, "vote": "up"}) == (1, 0, 0)
    assert qrels(dataset) == [("a/0", 0, 6, 1), ("a/1", 0, 5, 1)]


def test_labels_that_are_there_stay(folder: MarkdownDataset) -> None:
    """The quote of the second unit occurs twice, so it is found by its start."""
    judged = {"query_id": "q1", "doc_id": "a.md", "quote": "Dogs travel free.", "relevance": 2}
    write_lines(folder.root / "judgments.jsonl", [{**judged, "source": "pool"}])
    down, up = {**DOGS, "vote": "down"}, {**SECOND, "vote": "up"}
    assert send(folder, down, up) == (1, 1, 1)
    assert send(folder, down, {**up, "count": 2}) == (0, 2, 1)
    assert lines(folder) == [
        ("Dogs travel free.", None, 2, "pool"),
        ("Fares rise.", 12, 1, "feedback: 1 up, 0 down"),
    ]


def test_the_last_vote_of_a_user_counts(folder: MarkdownDataset) -> None:
    a, b = ({**DOGS, "user": name} for name in ("a", "b"))
    found = votes(
        folder,
        {**a, "vote": "down"},
        {**b, "vote": "up"},
        {**a, "vote": "up"},
        {**DOGS, "vote": "up"},
        {**SECOND, "user": "a", "vote": "down"},
    )
    assert [(one.grade, one.source) for one in found.judgments] == [
        (2, "feedback: 3 up, 0 down"),
        (0, "feedback: 0 up, 1 down"),
    ]
