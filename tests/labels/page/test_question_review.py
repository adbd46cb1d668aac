"""Questions that a model wrote: what is asked next, what is written, what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.labels.append_log import read_log
from rag_assets.labels.generation.question_generation import QUESTIONS
from rag_assets.labels.generation.question_tables import dataset_questions
from rag_assets.labels.page.followed_log import AnsweredMeanwhile
from rag_assets.labels.page.question_review import QuestionReview
from rag_assets.labels.question_marks import (
    KEPT,
    LEFT_OUT,
    UNANSWERABLE,
    MarkName,
    QuestionMark,
    marked_queries,
    marks_file,
    read_marks,
)
from rag_assets.schemas import QRELS, QUERIES
from rag_assets.sources.dataset import Read
from tests.labels.page.served import TEXTS, moment, questions_of, reviewing, tables


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "labelling.jsonl"


def review_of(log: Path) -> QuestionReview:
    return QuestionReview(questions_of(), tables()[0], log)


def give(
    review: QuestionReview, by: str, number: int, mark: MarkName = "kept", text: str | None = None
) -> dict[str, Any]:
    """Decide on what is shown, and return that."""
    task: dict[str, Any] = review.next_task(by)["task"]
    one = QuestionMark(task["query_id"], mark, None, by, moment(number), text)
    review.decide(one, task["n_lines"])
    return task


def test_each_question_comes_once_with_its_passage(log: Path) -> None:
    review = review_of(log)
    decisions: list[MarkName] = ["kept", "refused", "unclear"]
    tasks = [give(review, "ada", n, mark) for n, mark in enumerate(decisions)]
    assert [task["query_id"] for task in tasks] == ["gen-1", "gen-2", "gen-3"]
    shown = ["".join(part for part, _ in task["text"]["parts"]) for task in tasks]
    assert shown == ["A ticket costs 40 crowns.", TEXTS["crew"], TEXTS["winter"]]
    assert [task["answer"] for task in tasks] == ["40 crowns", None, None]
    assert tasks[0]["heading"] == "Fares"
    end = review.next_task("ada")
    assert (end["task"], end["progress"]["answered"], end["progress"]["left"]) == (None, 3, 0)
    assert review.counts() == {"kept": 1, "refused": 1, "unclear": 1}
    marks = read_marks(marks_file(log)).values()
    assert [(one.mark, one.by, one.at) for one in marks] == [
        (mark, "ada", moment(n)) for n, mark in enumerate(("kept", "refused", "unclear"))
    ]
    assert review_of(log).next_task("eve")["task"] is None  # the file alone knows as much


def test_a_better_wording_is_kept_and_the_same_is_none(log: Path) -> None:
    review = review_of(log)
    give(review, "ada", 1, text="What is the price of a ticket?")
    give(review, "ada", 2, text="How many sail a ferry?")
    first, second = read_log(marks_file(log), QuestionMark)
    assert (first.text, second.text) == ("What is the price of a ticket?", None)


def test_a_decision_that_is_sent_twice_is_written_once(log: Path) -> None:
    review = review_of(log)
    mark = QuestionMark("gen-1", "kept", None, "ada", moment(1))
    for one in (review, review, review_of(log)):
        assert one.decide(mark, 0)["task"]["query_id"] == "gen-2"
    assert len(list(read_log(marks_file(log), QuestionMark))) == 1


def test_undo_takes_back_the_last_one_also_after_a_restart(log: Path) -> None:
    review = review_of(log)
    tasks = [give(review, "ada", 1, "refused"), give(review, "ada", 2)]
    assert give(review_of(log), "eve", 3)["query_id"] == "gen-3"
    for again, task in zip((review, review_of(log)), reversed(tasks), strict=True):
        reply = again.undo("ada", moment(4 + again.next_task("ada")["progress"]["left"]))
        assert reply["undone"]["query_id"] == reply["task"]["query_id"] == task["query_id"]
    with pytest.raises(UsageError, match="nothing to undo"):
        review_of(log).undo("ada", moment(9))
    assert review_of(log).counts() == {"kept": 1}
    assert len(list(read_log(marks_file(log), QuestionMark))) == 5


def test_two_people_have_two_questions_and_nobody_overwrites_the_other(log: Path) -> None:
    review, other = review_of(log), review_of(log)  # the second one is another process
    ada, eve = review.next_task("ada")["task"], review.next_task("eve")["task"]
    assert [ada["query_id"], eve["query_id"]] == ["gen-1", "gen-2"]
    assert review.next_task("ada")["task"] == ada
    give(other, "bob", 1, "refused")  # what ada reads
    with pytest.raises(AnsweredMeanwhile, match="bob decided on this question meanwhile"):
        review.decide(QuestionMark("gen-1", "kept", None, "ada", moment(2)), ada["n_lines"])
    assert review.next_task("ada")["task"]["query_id"] == "gen-3"
    assert read_marks(marks_file(log))["gen-1"].mark == "refused"


def test_what_is_left_for_later_returns_last(log: Path) -> None:
    review = review_of(log)
    assert review.leave("gen-1", "ada")["task"]["query_id"] == "gen-2"
    assert review.leave("gen-2", "ada")["task"]["query_id"] == "gen-3"
    give(review, "ada", 1)
    assert review.next_task("ada")["task"]["query_id"] == "gen-1"
    with pytest.raises(UsageError, match="no question 'gen-9'"):
        review.leave("gen-9", "ada")
    with pytest.raises(UsageError, match="no question 'gen-9'"):
        review.decide(QuestionMark("gen-9", "kept", None, "ada", moment(5)), 0)


def test_over_http(log: Path) -> None:
    with reviewing(log) as client:
        assert client.ask("start") == {"by": "ada", "metric": None, "review": True}
        task = client.ask("next", by="ada")["task"]
        body = {"by": "ada", "at": moment(1), "query_id": task["query_id"], "n_lines": 0}
        for change, problem in (
            ({"mark": "judged"}, "mark: Input should be 'kept'"),
            ({"mark": "kept", "text": "x" * 10_001}, "text: String should have at most"),
            ({"mark": "kept", "query_id": "nobody"}, "no question 'nobody'"),
            ({"mark": "duplicate", "of": "nobody"}, "no question 'nobody'"),
        ):
            status, _, said = client.raw("decide", json.dumps({**body, **change}).encode())
            assert (status, problem in json.loads(said)["problem"]) == (400, True), said
        assert not marks_file(log).exists()
        client.ask("decide", **{**body, "mark": "kept", "text": "  A  better\none? "})
        other = "gen-2" if task["query_id"] == "gen-1" else "gen-1"
        client.ask("decide", **{**body, "mark": "duplicate", "of": other, "at": moment(2)})
        assert client.raw("answer", b"{}")[0] == 404  # nothing of the sample is there
    first, second = read_log(marks_file(log), QuestionMark)
    assert (first.text, second.mark, second.of) == ("A better one?", "duplicate", other)


def test_questions_of_a_dataset_come_with_what_they_were_made_from() -> None:
    metadata = json.dumps({"source": "tiny questions/1", "answers": ["40 crowns"]})
    rows: list[dict[str, object]] = [
        {"query_id": "a", "text": "Ticket?", "tags": ["generated"], "metadata": metadata},
        {"query_id": "b", "text": "Crew?", "tags": ["generated"], "metadata": "{}"},
        {"query_id": "c", "text": "No label?", "tags": ["generated"], "metadata": "{}"},
        {"query_id": "d", "text": "A person's?", "tags": [], "metadata": "{}"},
    ]
    labels = [
        ("a", "winter", 3, 9, 0),
        ("a", "fares", 9, 34, 1),
        ("b", "crew", None, None, 1),
        ("d", "crew", None, None, 1),
    ]
    names = ("query_id", "document_id", "start", "end", "grade")
    judged: list[dict[str, object]] = [
        {**dict(zip(names, one, strict=True)), "evidence_id": str(one)} for one in labels
    ]
    found = dataset_questions(QUERIES.from_rows(rows), QRELS.from_rows(judged), tables()[0])
    assert QUESTIONS.check(found).to_pylist() == [
        {
            "query_id": "a",
            "text": "Ticket?",
            "answer": "40 crowns",
            "chunk_id": "fares#9-34",
            "document_id": "fares",
            "start": 9,
            "end": 34,
            "source": "tiny questions/1",
        },
        {
            "query_id": "b",
            "text": "Crew?",
            "answer": None,
            "chunk_id": f"crew#0-{len(TEXTS['crew'])}",
            "document_id": "crew",
            "start": 0,
            "end": len(TEXTS["crew"]),
            "source": "",
        },
    ]


def test_marks_act_on_the_questions_of_an_evaluation(log: Path) -> None:
    ids = ["a", "b", "c", "d", "e"]
    rows: list[dict[str, object]] = [
        {"query_id": name, "text": name, "tags": [], "metadata": "{}"} for name in ids
    ]
    table = QUERIES.from_rows(rows)
    marks = {
        name: QuestionMark(name, mark, text="Better?" if mark == "kept" else None)
        for name, mark in zip(ids, (*LEFT_OUT, UNANSWERABLE, KEPT), strict=True)
    }
    read = marked_queries(Read(table, ["odd"]), marks, log)
    assert read.table.schema == table.schema
    texts = dict(zip(*(read.table[c].to_pylist() for c in ("query_id", "text")), strict=True))
    assert texts == {"d": "d", "e": "Better?"}
    told = "3 left out, as labelling.jsonl says: 1 refused, 1 unclear, 1 duplicate"
    assert read.notes == ["odd", told]
    everything = {name: QuestionMark(name, "refused") for name in ids}
    with pytest.raises(DataError, match="leaves every question out"):
        marked_queries(Read(table, []), everything, log)
    nothing = marked_queries(Read(table, []), {"x": QuestionMark("x", "refused")}, log)
    assert (nothing.table, nothing.notes) == (table, [])
    assert isinstance(nothing.table, pa.Table)
