"""Which questions are drawn, the blind sheet, and the file of labels."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from rag_assets.errors import DataError
from rag_assets.judges.answer_labels import (
    AnswerLabel,
    AskedAnswer,
    drawn_questions,
    drawn_so_far,
    labelled_questions,
    read_answer_labels,
    read_sheet,
    sheet_rows,
    sheet_text,
)
from rag_assets.labels.append_log import append_lines
from rag_assets.schemas import ANSWER_LABELS

ALONE = {f"q{number}": f"q{number}" for number in range(400)}


def asked(query_id: str, answer: str) -> AskedAnswer:
    return AskedAnswer(query_id, f"what is {query_id}", ("yes", "it is"), answer)


def test_a_larger_draw_holds_the_smaller_one_and_new_questions_move_nobody() -> None:
    fifty, hundred = drawn_questions(ALONE, 50), drawn_questions(ALONE, 100)
    assert (len(fifty), len(hundred)) == (50, 100)
    assert hundred[:50] == fifty
    more = {**ALONE, "new": "new"}
    assert [one for one in drawn_questions(more, 101) if one != "new"][:50] == fifty
    assert drawn_questions(ALONE, 1000) == drawn_questions(ALONE, 400)
    assert drawn_questions({}, 5) == []


def test_every_question_is_drawn_as_often() -> None:
    counts = np.zeros(40)
    for draw in range(2000):
        names = {number: f"{draw}/{number}" for number in range(40)}
        drawn = set(drawn_questions({name: name for name in names.values()}, 10))
        counts += [names[number] in drawn for number in range(40)]
    assert counts.sum() == 20_000
    # A binomial of 2,000 draws at 1/4 has a standard deviation of 19.4.
    assert abs(counts - 500).max() < 4 * 19.4


def test_a_cluster_is_drawn_as_a_whole() -> None:
    clusters = {f"q{number}": f"c{number // 5}" for number in range(100)}
    drawn = drawn_questions(clusters, 12)
    assert len(drawn) == 15
    assert {clusters[one] for one in drawn}.isdisjoint(
        clusters[one] for one in clusters if one not in drawn
    )
    assert drawn_so_far(clusters, [drawn[-1]]) == set(drawn)


def test_a_question_left_open_before_the_last_labelled_one_was_drawn_too() -> None:
    drawn = drawn_questions(ALONE, 30)
    assert drawn_so_far(ALONE, [drawn[0], drawn[29]]) == set(drawn)
    assert drawn_so_far(ALONE, []) == frozenset()
    assert drawn_so_far(ALONE, ["of another experiment"]) == frozenset()


def test_a_sheet_asks_once_for_what_has_no_label_and_tells_no_system() -> None:
    given = [asked("q2", "no"), asked("q2", "maybe"), asked("q1", "=1+1"), asked("q2", "maybe")]
    labels = ANSWER_LABELS.from_rows(
        [{"query_id": "q2", "answer": "no", "correct": None, "probability": 0.5}]
    )
    rows = sheet_rows(given, labels)
    assert [(row.query_id, row.answer) for row in rows] == [("q2", "maybe"), ("q1", "=1+1")]
    text = sheet_text(rows)
    cells = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    assert [cell["answer"] for cell in cells] == ["maybe", "'=1+1"]
    assert list(cells[0]) == ["id", "question", "right_answers", "answer", "correct"]
    assert cells[0]["right_answers"] == "yes | it is"
    assert {cell["correct"] for cell in cells} == {""}


def filled(tmp_path: Path, rows: list[AskedAnswer], *words: str) -> Path:
    cells = list(csv.reader(io.StringIO(sheet_text(rows).removeprefix("\ufeff"))))
    for row, word in zip(cells[1:], words, strict=True):
        row[-1] = word
    file = tmp_path / "sheet.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(cells)
    return file


def test_a_sheet_comes_back_as_labels_of_the_texts_that_were_answered(tmp_path: Path) -> None:
    rows = [asked("q1", "=1+1"), asked("q1", "two\r\nlines"), asked("q2", "x"), asked("q3", "y")]
    labels, n_open = read_sheet(filled(tmp_path, rows, "Yes", "no", "?", " "), rows)
    assert labels == [
        AnswerLabel("q1", "=1+1", True),
        AnswerLabel("q1", "two\r\nlines", False),
        AnswerLabel("q2", "x", None),
    ]
    assert n_open == 1
    file = tmp_path / "answer_labels.jsonl"
    append_lines(file, [replace(label, probability=0.25, by="anna") for label in labels])
    append_lines(file, [AnswerLabel("q2", "x", True, 0.25, None, "later")])
    table = read_answer_labels(file)
    assert [(row["answer"], row["correct"], row["by"]) for row in table.to_pylist()] == [
        ("=1+1", True, "anna"),
        ("two\r\nlines", False, "anna"),
        ("x", True, None),
    ]
    assert labelled_questions(table) == {"q1", "q2"}


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("perhaps", "sheet.csv:2: `correct`: is 'perhaps'; must be yes, no or ?"),
        ("yes", "is of no answer to a drawn question; the answers changed"),
    ],
)
def test_a_bad_row_names_its_line(tmp_path: Path, word: str, problem: str) -> None:
    rows = [asked("q1", "a")]
    known = rows if word == "perhaps" else [asked("q1", "b")]
    with pytest.raises(DataError, match=r"sheet\.csv:2") as error:
        read_sheet(filled(tmp_path, rows, word), known)
    assert problem in str(error.value)


def test_an_edited_answer_is_refused(tmp_path: Path) -> None:
    rows = [asked("q1", "ten")]
    file = filled(tmp_path, rows, "yes")
    file.write_text(file.read_text("utf-8").replace(",ten,", ",eleven,"), "utf-8")
    with pytest.raises(DataError, match="'eleven' is not the stored answer"):
        read_sheet(file, rows)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"query_id": "q", "answer": "a"}', "correct"),
        ('{"query_id": "q", "answer": "a", "correct": 1}', "is 1; must be true, false or null"),
        ('{"query_id": "q", "answer": 3, "correct": true}', "answer"),
        ('{"query_id": "q", "answer": "a", "correct": true, "probability": 0}', "above 0"),
        ('{"query_id": "q", "answer": "a", "correct": true, "grade": 0}', "unknown key"),
        ("nonsense", "malformed JSON"),
    ],
)
def test_a_bad_line_of_the_file_is_named(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "answer_labels.jsonl"
    good = '{"query_id": "q", "answer": "a", "correct": null}\n'
    file.write_text(good + line + "\n", "utf-8")
    with pytest.raises(DataError, match=r"answer_labels\.jsonl:2") as error:
        read_answer_labels(file)
    assert problem in str(error.value)


def test_a_line_without_an_end_is_ended_before_others_follow(tmp_path: Path) -> None:
    file = tmp_path / "answer_labels.jsonl"
    file.write_text('{"query_id": "q", "answer": "a", "correct": true}', "utf-8")
    append_lines(file, [AnswerLabel("q", "b", False, 1.0)])
    assert read_answer_labels(file)["correct"].to_pylist() == [True, False]
