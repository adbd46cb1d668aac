"""What is asked next, what is written, and what the sample makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.logs import (
    KEPT,
    LEFT_OUT,
    UNANSWERABLE,
    LoggedJudgment,
    QuestionMark,
    Status,
    marked_queries,
    marks_file,
    read_judgments,
    read_marks,
)
from rag_assets.labels.page.session import LabelSession, Passages
from rag_assets.labels.pool import Judgment, PooledUnit
from rag_assets.sources.dataset import Read
from tests.labels.health.tables import queries
from tests.labels.page.served import TEXTS, moment, session_of, tables


def shown(session: LabelSession) -> PooledUnit:
    task = session.next_task()["task"]
    return PooledUnit(*(task[name] for name in ("query_id", "document_id", "start", "end")))


def body(
    item: PooledUnit, by: str, number: int, grade: int | None = 1, status: Status = "judged"
) -> LoggedJudgment:
    return LoggedJudgment(*item, grade, status, by=by, at=moment(number), seconds=2.0)


def give(
    session: LabelSession, by: str, number: int, status: Status = "judged", grade: int | None = 1
) -> PooledUnit:
    item = shown(session)
    session.answer(body(item, by, number, grade, status))
    return item


def test_the_order_is_that_of_the_design_and_the_probability_is_written(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    session = session_of(log)
    design = session.design
    items = [give(session, "ada", number, grade=number % 4) for number in range(8)]
    assert items == [session.pool.items[n] for n in design.order()]
    assert session.next_task()["task"] is None
    arrivals = np.sort(design.arrivals())
    lines = read_judgments(log)
    for number, line in enumerate(lines[:-1]):
        there = session.pool.items.index(line.item)
        expected = design.probabilities(arrivals[number + 1])[there]
        assert line.probability == pytest.approx(expected)
    assert [line.was_drawn for line in lines] == [True] * 8
    sample, _ = session.sample()
    assert sample.judged.all()
    assert sample.probabilities() == pytest.approx(1.0)


def test_an_answer_sent_twice_is_written_once_also_after_a_restart(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    session = session_of(log)
    answer = replace(body(shown(session), "ada", 1, 2), evidence=((0, 5),))
    task = session.answer(answer)["task"]
    for one in (session, session_of(log)):
        assert one.answer(answer)["task"] == task
    assert [line.evidence for line in read_judgments(log)] == [((0, 5),)]


def test_of_two_people_the_last_one_counts(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    session, other = session_of(log), session_of(log)  # the second one is another process
    item = shown(session)
    assert give(other, "bob", 1, grade=0) == item
    session.answer(body(item, "ada", 2, 3))
    assert shown(session) == shown(other) != item
    with pytest.raises(UsageError, match="not in the sample"):
        session.answer(body(item._replace(end=item.end - 1), "ada", 3))
    sample, lines = other.sample()
    assert (len(lines), sample.grades[sample.judged].tolist()) == (2, [3.0])
    other.undo("bob", moment(4))  # another answered it since: nothing is taken back
    assert len(read_judgments(log)) == 2


def test_skipped_items_return_in_the_order_in_which_they_were_skipped(tmp_path: Path) -> None:
    session = session_of(tmp_path / "log.jsonl")
    skipped = [give(session, "ada", number, "skipped", None) for number in range(2)]
    for number in range(2, 8):
        assert give(session, "ada", number, "cannot_tell", None) not in skipped
    assert shown(session) == skipped[0]
    give(session, "ada", 9, "skipped", None)
    assert shown(session) == skipped[1]
    sample, _ = session.sample()
    assert (sample.cannot_tell.sum(), sample.judged.sum()) == (6, 0)


def test_undo_takes_back_what_was_done_last(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    session = session_of(log)
    items = [give(session, "ada", 0), give(session, "ada", 1)]
    items.append(give(session, "ada", 2, "skipped", None))
    undone = [session.undo("ada", moment(number)) for number in (10, 11)]
    assert session.undo("ada", moment(11))["task"] == undone[1]["task"]  # sent again
    names = [one["undone"]["document_id"] for one in undone]
    assert names == [items[2].document_id, items[1].document_id]
    assert shown(session) == items[1]
    assert not np.isnan(session.sample()[0].grades).all()
    session = session_of(log)  # the log alone knows as much
    session.undo("ada", moment(12))
    session.undo("ada", moment(13))
    assert np.isnan(session.sample()[0].grades).all()
    for name in ("ada", "eve"):
        with pytest.raises(UsageError, match="nothing to undo"):
            session.undo(name, moment(14))


def test_labels_of_the_dataset_are_not_asked(tmp_path: Path) -> None:
    item = PooledUnit("q1", "crew", 0, len(TEXTS["crew"]))
    session = session_of(tmp_path / "l.jsonl", earlier=(Judgment(item, 0, "labels", 1),))
    assert item not in {give(session, "ada", number) for number in range(7)}
    assert session.next_task()["task"] is None


def test_texts_that_are_gone_are_not_shown(tmp_path: Path) -> None:
    changed = with_texts(session_of(tmp_path / "log.jsonl"), {**TEXTS, "crew": ""})
    items = {give(changed, "ada", number).document_id for number in range(6)}
    assert items == TEXTS.keys() - {"crew"}
    assert changed.next_task()["progress"]["gone"] == 2


def with_texts(session: LabelSession, texts: Mapping[str, str]) -> LabelSession:
    documents, questions = tables(texts)
    sampled = session.sampled._replace(documents=documents)
    return LabelSession(sampled, Passages(documents, questions), Metric("dcg", 4))


@pytest.mark.parametrize("text", ["A crew of four sails each ferry.", "A crew of five."])
def test_a_text_that_changed_is_asked_again(tmp_path: Path, text: str) -> None:
    """Also where it became shorter, so that the passage is what is left of it."""
    session = session_of(tmp_path / "log.jsonl")
    for number in range(8):
        give(session, "ada", number)
    changed = with_texts(session, {**TEXTS, "crew": text})
    assert {give(changed, "bob", number).document_id for number in (10, 11)} == {"crew"}
    assert changed.next_task()["task"] is None
    again = with_texts(session, {**TEXTS, "crew": text})
    assert again.next_task()["progress"] == changed.next_task()["progress"]
    assert session_of(session.log).next_task()["task"] is None  # the old text has its old grade


def test_marks_of_questions(tmp_path: Path) -> None:
    session = session_of(tmp_path / "log.jsonl")
    mark = QuestionMark("q2", "duplicate", "q1", "ada", moment(1))
    for one in (mark, mark, QuestionMark("q1", "unclear"), QuestionMark("q1", None)):
        session.mark(one)
    file = marks_file(session.log)
    assert read_marks(file) == {"q2": mark}
    asked = session.next_task()
    assert (asked["task"]["query_id"], asked["progress"]["left"]) == ("q1", 4)
    assert {give(session, "ada", number).query_id for number in range(2, 6)} == {"q1"}
    assert session.next_task()["task"] is None
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3
    with pytest.raises(UsageError, match="no question 'q9'"):
        session.mark(QuestionMark("q2", "duplicate", "q9"))
    file.write_text(json.dumps({"query_id": "q", "mark": "bad"}), encoding="utf-8")
    with pytest.raises(Exception, match="1: `mark`: is 'bad'; must be one of kept, refused"):
        read_marks(file)


def test_marks_act_on_the_questions_of_an_evaluation(tmp_path: Path) -> None:
    log = tmp_path / "labelling.jsonl"
    ids = ["a", "b", "c", "d", "e"]
    table = queries(dict.fromkeys(ids, "t"))
    decisions = zip(ids, (*LEFT_OUT, UNANSWERABLE, KEPT), strict=True)
    marks = {name: QuestionMark(name, mark) for name, mark in decisions}
    read = marked_queries(Read(table, ["odd"]), marks, log)
    assert read.table.schema == table.schema
    tags = dict(zip(*(read.table[c].to_pylist() for c in ("query_id", "tags")), strict=True))
    assert tags == {"d": ["unanswerable"], "e": []}
    told = "3 left out, as labelling.jsonl says: 1 refused, 1 unclear, 1 duplicate"
    assert read.notes == ["odd", told]
    everything = {name: QuestionMark(name, "refused") for name in ids}
    with pytest.raises(DataError, match="leaves out every question"):
        marked_queries(Read(table, []), everything, log)
    nothing = marked_queries(Read(table, []), {"x": QuestionMark("x", "refused")}, log)
    assert (nothing.table, nothing.notes) == (table, [])
