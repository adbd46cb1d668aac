"""Logs of what people say, and verdicts and votes in them, which are hints and no labels."""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from rag_assets.errors import DataError, StoreError
from rag_assets.labels.logs import LoggedJudgment, append_lines, read_judgments, source_counts
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample
from tests.labels.page.served import moment, session_of
from tests.labels.sampling.made_pool import DCG, collection, design_of, drawn_line, item

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
        ("}", ', "evidence": [4, 5]}', "2: `evidence`: is [4, 5]; must be a"),
        ('"grade": 1', '"grade": 4', "2: `grade`: is 4; must be an integer from 0 to 3"),
        ('"grade": 1', '"grade": null', "2: `grade`: must be an integer from 0 to 3 where the"),
        ('"judged"', '"skipped"', "2: `grade`: must be null where the status is skipped"),
        ('"judged"', '"done"', "2: `status`: is 'done'; must be one of judged, skipped"),
        ('"start": 0', '"start": -1', "2: `start`: is -1; must be an integer from 0 on"),
        ('"end": 9', '"end": true', "2: `end`: is a boolean; must be an integer from 0 on"),
        ('"start": 0', '"start": 10', "2: `end`: is 9, before `start`, 10"),
        ('"query_id": "q"', '"query_id": ""', "2: `query_id`: is ''; must be a string on one"),
        ("}", ', "probability": 1.2}', "2: `probability`: is 1.2; must be a number above 0 and at"),
        ("}", ', "seconds": "8"}', "2: `seconds`: is '8'; must be a number from 0 on"),
        ("}", "", "2: malformed JSON"),
        ("}", ', "source": "search"}', "2: `source`: is 'search'; allowed: person, judge"),
        ("}", ', "source": "vote:"}', "2: `source`: is 'vote:'; allowed: person, judge"),
        ("}", ', "source": "judge:a", "probability": 0.2}', "2: `probability`: must be null where"),
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
    file.write_text(file.read_text(encoding="utf-8").split("\n", 1)[1], encoding="utf-8")
    assert read_judgments(file) == [FIRST]


def append_many(file: Path, by: str) -> None:
    for number in range(50):
        append_lines(file, [replace(FIRST, by=by, document_id=f"{by}{number}", end=10**6)])


def test_two_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    file = tmp_path / "judgments.jsonl"
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(append_many, [file, file], ["ada", "bob"]))
    names = [line.item.document_id for line in read_judgments(file)]
    assert sorted(names) == sorted(f"{by}{n}" for by in ("ada", "bob") for n in range(50))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        append_lines(tmp_path / "missing" / "judgments.jsonl", [FIRST])


POOL, LABELS = collection()
DESIGN = design_of(POOL)
N = 4 * len(POOL.question_ids)


def drawn() -> list[LoggedJudgment]:
    return [drawn_line(POOL.items[n], int(LABELS[n])) for n in DESIGN.order()[:N]]


def verdicts(source: str, wrong: float, seed: int) -> list[LoggedJudgment]:
    """Return what somebody says of nine tenths of the items, right but for a share."""
    generator = np.random.default_rng(seed)
    flips = generator.random(len(LABELS)) < wrong
    grades = np.abs(LABELS - flips).astype(int)
    there = generator.random(len(LABELS)) < 0.9
    pairs = zip(POOL.items, grades.tolist(), there.tolist(), strict=True)
    return [LoggedJudgment(*item, grade, source=source) for item, grade, known in pairs if known]


def error(sample: LabelSample) -> float:
    return Estimator(sample, DCG).estimates()["s0"].error


def test_they_are_no_labels_and_make_the_error_smaller() -> None:
    alone = label_sample(POOL, DESIGN, drawn())
    fair, poor = verdicts("judge:fair", 0.1, 1), verdicts("vote:intranet", 0.4, 2)
    for lines in (fair + drawn(), drawn() + fair, [*poor, *drawn(), *fair]):
        sample = label_sample(POOL, DESIGN, lines)
        assert not sample.certain.any()
        assert sample.grades == pytest.approx(alone.grades, nan_ok=True)
        assert (sample.judged == alone.judged).all()
        assert sample.probabilities() == pytest.approx(alone.probabilities())
        assert error(sample) < 0.9 * error(alone)
    assert list(sample.verdicts) == ["judge:fair", "vote:intranet"]
    assert all(np.isnan(verdicts).any() for verdicts in sample.verdicts.values())
    assert error(label_sample(POOL, DESIGN, drawn() + poor)) < 1.05 * error(alone)


def test_of_one_source_the_last_line_counts_and_a_part_of_an_item_tells_of_it() -> None:
    item = POOL.items[0]
    said = [(item, 3), (item, 1), (item._replace(start=10, end=60), 2)]
    lines = [LoggedJudgment(*span, grade, source="judge:a") for span, grade in said]
    missing = LoggedJudgment(*POOL.items[1], None, "cannot_tell", source="judge:a")
    (verdicts,) = label_sample(POOL, DESIGN, [*lines, missing]).verdicts.values()
    assert verdicts[0] == 2
    assert np.isnan(verdicts[1:]).all()
    assert source_counts([*lines, missing, *drawn()[:3]], ()) == {"judge:a": 2, "person": 3}
    assert source_counts(lines, [item.query_id]) == {}


def test_the_page_asks_as_if_they_were_not_there(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    session = session_of(log)
    first = session.next_task()["task"]
    items = session.pool.items
    append_lines(log, [LoggedJudgment(*one, 3, source="judge:tiny", by="ada") for one in items])
    task = session.next_task()
    assert task["task"] == first
    assert (task["progress"]["answered"], task["progress"]["left"]) == (0, 8)
    with pytest.raises(Exception, match="nothing to undo"):
        session.undo("ada", moment(1))
    sample, _ = session.sample()
    assert not sample.certain.any()
    assert list(sample.verdicts) == ["judge:tiny"]
