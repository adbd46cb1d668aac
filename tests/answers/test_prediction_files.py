from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rag_assets.answers.prediction_files import read_answers, read_na_probs, read_predictions
from rag_assets.errors import DataError


def test_squads_predictions(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    path.write_text('{"q2": "France", "q1": "", "q3": null, "q9": "x"}', encoding="utf-8")
    read = read_predictions(path, ["q1", "q2", "q3", "q4"])
    assert read.answers == {
        "q1": {"answer": ""},
        "q2": {"answer": "France"},
        "q3": {"answer": ""},
        "q4": {"error": "no prediction"},
    }
    assert read.missing == ("q4",)
    assert read.others == ("q9",)
    assert read.notes() == [
        "1 question has no prediction, and counts as failed: q4",
        "1 prediction is for no question of the experiment, and is left out: q9",
    ]


def test_lines(tmp_path: Path) -> None:
    rows = [
        {"query_id": "a", "answer": "40 [2]", "cited": [2, 1], "na_prob": 0.25, "model": "m"},
        {"query_id": "b", "answer": None},
        {"query_id": "c", "error": "timed  out\nafter 60 s"},
        {"query_id": "d", "answer": "none of them", "abstained": False, "cited": []},
    ]
    path = tmp_path / "answers.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    read = read_predictions(path, list("abcd"))
    assert (read.missing, read.others, read.notes()) == ((), (), [])
    nothing = {"abstained": None, "cited": None, "score": None}
    assert read.answers == {
        "a": {"answer": "40 [2]", "abstained": None, "cited": [2, 1], "score": 0.25},
        "b": {"answer": "", **nothing},
        "c": {"error": "timed out after 60 s"},
        "d": {"answer": "none of them", "abstained": False, "cited": [], "score": None},
    }


OBJECTS = {
    '{"q1": "a",\n "q2": 3}': "p.json: `q2`: is an integer; must be a string, or null for no "
    "answer",
    '{"q1": "a",\n "q2": ["b"]}': "p.json: `q2`: is a list; must be a string, or null for no "
    "answer",
    '{"q1": "a",\n\n "q2": "\\"q1\\": b", "q1": "c"}': "p.json:3: `q1`: question 'q1' stands "
    "already on line 1",
    '{"q1": "a",\n "q2" "b"}': "p.json:2: malformed JSON at byte 7 (expected ':')",
    '[{"q1": "a"}]': "p.json: found a list; must be one object, question to value",
    '{"z": "a"}': "p.json: has none of the experiment's 2 questions; its first is 'z'",
    "{}": "p.json: has none of the experiment's 2 questions",
    '{"q1": NaN}': "p.json:1: malformed JSON at byte 8 (invalid character)",
}


@pytest.mark.parametrize(("text", "problem"), OBJECTS.items())
def test_what_is_wrong_in_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_predictions(Path("p.json"), ["q1", "q2"])
    assert str(caught.value) == problem


LINES = {
    '{"answer": "a"}': "p.jsonl:2: `query_id`: is missing; found keys: 'answer'",
    '{"query_id": "q2"}': "p.jsonl:2: `answer`: is missing; null means a refusal, "
    "`error` a failure",
    '{"query_id": "q2", "answer": 3}': "p.jsonl:2: `answer`: is 3; must be a string",
    '{"query_id": "q1", "answer": "b"}': "p.jsonl:2: `query_id`: query id 'q1' occurs twice, first "
    "on line 1",
    '{"query_id": "q2", "answer": "b", "cited": [0]}': "p.jsonl:2: `cited`: is [0]; must be a "
    "list of numbers of units, integers from 1",
    '{"query_id": "q2", "answer": "b", "cited": "1"}': "p.jsonl:2: `cited`: is '1'; must be a "
    "list of numbers of units, integers from 1",
    '{"query_id": "q2", "answer": "b", "na_prob": "high"}': "p.jsonl:2: `na_prob`: is 'high'; "
    "must be a finite number",
    f'{{"query_id": "q2", "answer": "b", "na_prob": {10**400}}}': "p.jsonl:2: `na_prob`: is 1"
    f"{'0' * 59}...; must be a finite number",
    '{"query_id": "q2", "answer": "b", "abstained": 1}': "p.jsonl:2: `abstained`: is 1; must be "
    "true or false",
    '{"query_id": "q2", "answer": "b", "error": "late"}': "p.jsonl:2: `error`: comes with an "
    "`answer`; a question has only one of them",
    '{"query_id": "q2", "error": " "}': "p.jsonl:2: `error`: is blank; it must say why there is no "
    "answer",
    '{"query_id": "q2", "answer": "b"': "p.jsonl:2: malformed JSON (input data was truncated)",
}


@pytest.mark.parametrize(("line", "problem"), LINES.items())
def test_what_is_wrong_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.jsonl").write_text(f'{{"query_id": "q1", "answer": "a"}}\n{line}\n', "utf-8")
    with pytest.raises(DataError) as caught:
        read_predictions(Path("p.jsonl"), ["q1", "q2"])
    assert str(caught.value) == problem


def test_another_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be a \.json or \.jsonl file"):
        read_answers(tmp_path / "p.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read_answers(tmp_path / "p.json")


def test_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "na.json"
    path.write_text('{"q1": 0.5,\n"q2": 1}', encoding="utf-8")
    assert read_na_probs(path) == {"q1": 0.5, "q2": 1.0}
    path.write_text('{"q1": 0.5,\n"q2": "1"}', encoding="utf-8")
    with pytest.raises(DataError, match=r"na\.json: `q2`: is a string; must be a number"):
        read_na_probs(path)
    path.write_text('{"q1": 0.5,\n"q2": true}', encoding="utf-8")
    with pytest.raises(DataError, match=r"na\.json: `q2`: is a boolean; must be a number"):
        read_na_probs(path)
