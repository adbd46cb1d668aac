from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from rag_assets.errors import DataError, StoreError
from rag_assets.labels.append_log import append_lines
from rag_assets.labels.sampling.judgment_log import (
    LoggedJudgment,
    read_judgments,
)
from tests.labels.sampling.made_pool import item

FIRST = LoggedJudgment(*item("q", "d"), 2, "judged", 0.31, "ada", "2026-03-01T09:30:00Z", 8.5)


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "judgments.jsonl"
    lines = [
        FIRST,
        LoggedJudgment(*item("q", "\u6e2f \u2028'"), None, "skipped"),
        LoggedJudgment(*item("q", "e", 5, 9), None, "cannot_tell", 0.5),
    ]
    for line in lines:
        append_lines(file, [line])
    assert read_judgments(file) == lines
    assert [line.was_drawn for line in lines] == [True, False, True]
    assert not replace(FIRST, probability=1.0).was_drawn


GOOD = '{"query_id": "q", "document_id": "d", "start": 0, "end": 9, "status": "judged", "grade": 1}'


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"grade": 1', '"grade": 1, "evidence": [[4, 10]]', "2: `evidence`: must be a list of"),
        (
            '"grade": 1',
            '"grade": 1, "evidence": [4, 5]',
            "2: `evidence`: is [4, 5]; must be a",
        ),
        (
            '"grade": 1',
            '"grade": 1, "evidence": "4-5"',
            "2: `evidence`: is '4-5'; must be",
        ),
        ('"grade": 1', '"grade": 4', "2: `grade`: is 4; must be an integer from 0 to 3"),
        ('"grade": 1', '"grade": null', "2: `grade`: must be an integer from 0 to 3 where the"),
        ('"grade": 1', '"grade": 1.5', "2: `grade`: is 1.5; must be"),
        ('"judged"', '"skipped"', "2: `grade`: must be null where the status is skipped"),
        (
            '"judged"',
            '"done"',
            "2: `status`: is 'done'; must be one of judged, skipped",
        ),
        ('"start": 0', '"start": -1', "2: `start`: is -1; must be an integer from 0 on"),
        ('"end": 9', '"end": true', "2: `end`: is a boolean; must be an integer from 0 on"),
        ('"start": 0', '"start": 10', "2: `end`: is 9, before `start`, 10"),
        ('"query_id": "q"', '"query_id": ""', "2: `query_id`: is ''; must be a string on one"),
        ("}", ', "probability": 1.2}', "2: `probability`: is 1.2; must be a number above 0 and at"),
        ("}", ', "probability": 0}', "2: `probability`: is 0; must be a number above 0"),
        ("}", ', "seconds": "8"}', "2: `seconds`: is '8'; must be a number from 0 on"),
        ("}", "", "2: malformed JSON"),
    ],
)
def test_a_bad_line_is_one_error_with_file_line_and_key(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    file = tmp_path / "judgments.jsonl"
    file.write_text(f"{GOOD}\n{GOOD.replace(old, new)}\n", encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(f"judgments.jsonl:{problem}")):
        read_judgments(file)


def test_nothing_is_glued_to_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "judgments.jsonl"
    file.write_text(GOOD[:30], encoding="utf-8")
    append_lines(file, [FIRST])
    with pytest.raises(DataError, match=r"judgments.jsonl:1: malformed JSON"):
        read_judgments(file)
    rest = file.read_text(encoding="utf-8").split("\n", 1)[1]
    file.write_text(rest, encoding="utf-8")
    assert read_judgments(file) == [FIRST]


def append_many(file: Path, by: str) -> None:
    for number in range(50):
        line = replace(FIRST, by=by, document_id=f"{by}{number}", end=10**6)
        append_lines(file, [line])


def test_two_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    file = tmp_path / "judgments.jsonl"
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(append_many, [file, file], ["ada", "bob"]))
    names = [line.item.document_id for line in read_judgments(file)]
    assert sorted(names) == sorted(f"{by}{n}" for by in ("ada", "bob") for n in range(50))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        append_lines(tmp_path / "missing" / "judgments.jsonl", [FIRST])
