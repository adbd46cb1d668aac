"""Feedback that is read again, with other votes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assets.labels.pooling.feedback import Votes, earlier_feedback, read_feedback
from rag_assets.labels.pooling.label_import import Added, add_judgments
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.document_folder import MarkdownDataset

TEXT = "Fares rise. Fares rise. Dogs travel free.\n"
DOGS = {"query_id": "q1", "chunk_id": "a.md#24-41"}
SECOND = {"query_id": "q1", "chunk_id": "a.md#12-23"}


def write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> MarkdownDataset:
    (tmp_path / "a.md").write_text(TEXT, encoding="utf-8")
    write_lines(tmp_path / "queries.jsonl", [{"query_id": "q1", "text": "?"}])
    return MarkdownDataset.open(tmp_path)


def votes(dataset: Dataset, *rows: dict[str, Any]) -> Votes:
    file = dataset.root / "votes" / "feedback.jsonl"
    write_lines(file, list(rows))
    return read_feedback(file, dataset.read_documents().table, dataset.read_queries().table)


def send(dataset: Dataset, *rows: dict[str, Any], judge: str = "evidence") -> tuple[Added, int]:
    """Read feedback into the labels; return conflicts too."""
    conflicts: list[Exception] = []
    found = votes(dataset, *rows)
    documents, queries = dataset.read_documents().table, dataset.read_queries().table
    added = add_judgments(
        dataset,
        found.judgments,
        documents,
        queries,
        judge=judge,
        on_conflict=conflicts.append,
        renewed=found.units,
    )
    return added, len(conflicts)


def lines(dataset: Dataset) -> list[tuple[Any, ...]]:
    text = (dataset.root / "judgments.jsonl").read_text(encoding="utf-8")
    names = ("quote", "start", "relevance", "source")
    return [tuple(json.loads(line).get(name) for name in names) for line in text.splitlines()]


def counts(added: Added) -> tuple[int, ...]:
    return (added.n_added, added.n_known, added.n_changed, added.n_withdrawn)


def test_a_label_that_names_its_document_by_parts_is_no_feedback(folder: MarkdownDataset) -> None:
    file = folder.root / "judgments.jsonl"
    write_lines(file, [{"query_id": "q1", "source": "people", "part": "a"}])
    assert earlier_feedback(file, folder.read_documents().table, ()) == {}


def test_a_changed_vote_changes_the_grade_in_its_place(folder: MarkdownDataset) -> None:
    """The quote of the second unit stands twice, so it is found by its start."""
    first, second = {**SECOND, "vote": "up"}, {**DOGS, "vote": "up"}
    assert counts(send(folder, first, second)[0]) == (2, 0, 0, 0)
    added, conflicts = send(folder, {**first, "vote": "down"}, second)
    assert (counts(added), conflicts) == ((0, 1, 1, 0), 0)
    assert lines(folder) == [
        ("Fares rise.", 12, 0, "feedback: 0 up, 1 down"),
        ("Dogs travel free.", None, 1, "feedback: 1 up, 0 down"),
    ]


def test_the_same_again_changes_nothing(folder: MarkdownDataset) -> None:
    rows = ({**DOGS, "vote": "up", "user": "a"}, {**SECOND, "vote": "down"})
    send(folder, *rows)
    before = (folder.root / "judgments.jsonl").read_bytes()
    assert counts(send(folder, *rows)[0]) == (0, 2, 0, 0)
    assert (folder.root / "judgments.jsonl").read_bytes() == before


def test_more_votes_with_the_same_grade_are_kept_as_the_source(folder: MarkdownDataset) -> None:
    send(folder, {**DOGS, "vote": "up"})
    assert counts(send(folder, {**DOGS, "vote": "up", "count": 2})[0]) == (0, 0, 1, 0)
    assert lines(folder)[0][2:] == (1, "feedback: 2 up, 0 down")


def test_undecided_takes_the_label_back_and_the_others_stay(folder: MarkdownDataset) -> None:
    send(folder, {**DOGS, "vote": "up"}, {**SECOND, "vote": "up"})
    again = send(folder, {**DOGS, "vote": "up"}, {**DOGS, "vote": "down"})[0]
    assert counts(again) == (0, 0, 0, 1)
    assert [line[1] for line in lines(folder)] == [12]
    send(folder, {**SECOND, "vote": "up"}, {**SECOND, "vote": "down"})
    assert not folder.has_qrels


def test_what_people_judged_stays_and_is_a_conflict(folder: MarkdownDataset) -> None:
    judged = {"query_id": "q1", "doc_id": "a.md", "quote": "Dogs travel free.", "relevance": 2}
    write_lines(folder.root / "judgments.jsonl", [{**judged, "source": "pool"}])
    added, conflicts = send(folder, {**DOGS, "vote": "down"})
    assert (counts(added), conflicts) == ((0, 1, 0, 0), 1)
    assert lines(folder) == [("Dogs travel free.", None, 2, "pool")]


def test_reading_again_gives_what_reading_once_gives(folder: MarkdownDataset) -> None:
    """The whole sentence covers the dogs; once nobody likes the dogs, it is a label itself."""
    whole = {"query_id": "q1", "chunk_id": "a.md#12-41", "vote": "up"}
    send(folder, {**DOGS, "vote": "up"}, whole)
    assert len(lines(folder)) == 1
    send(folder, {**DOGS, "vote": "down"}, whole)
    again = sorted(lines(folder))
    (folder.root / "judgments.jsonl").unlink()
    send(folder, {**DOGS, "vote": "down"}, whole)
    assert sorted(lines(folder)) == again
    assert len(again) == 2


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
