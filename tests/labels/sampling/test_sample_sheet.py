"""The sheet of a sample: what is asked comes back with its probability, and nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.experiment_pool import new_judgments, next_units, read_sheet, sheet_text
from rag_assets.labels.logs import (
    CANNOT_TELL,
    JUDGED,
    SKIPPED,
    LoggedJudgment,
    append_lines,
    read_judgments,
)
from rag_assets.labels.pool import LabelPool
from rag_assets.labels.sampling.design import Design, new_design
from rag_assets.labels.sampling.label_sample import LabelSample, label_sample
from tests.labels.page.served import pool_of, tables
from tests.made_tables import sheet_rows, write_sheet

TEXTS = {
    "=cmd|' /C calc'!A0": '=HYPERLINK("https://evil.example")\r\n+1\t@SUM(A1)',
    "lines": 'one\r\ntwo\n\nthree "quoted", and\rfour',
    "'quoted": "'=1+1 is no formula here",
    "long": "- word " * 9_000,
    "wide": "\U0001f6a2" * 20_000,
    "rtl": "\u202eabc\u202c \u05d0\u05d1",
}
QUESTIONS = {"-1+2": "=what?\nand how", "q2": '@who, "then"'}
AT = "2026-03-01T09:30:00+00:00"


class Sheet:
    """A sample of hostile texts, its sheet, and its log."""

    def __init__(self, folder: Path, n: int = 8) -> None:
        self.pool: LabelPool = pool_of(TEXTS, QUESTIONS, depth=6)
        self.design: Design = new_design(self.pool.items, self.pool.weights(Metric("dcg", 6)))
        self.documents, self.queries = tables(TEXTS, QUESTIONS)
        self.log, self.file = folder / "labelling.jsonl", folder / "sheet.csv"
        self.rows = self.written(n)

    def lines(self) -> list[LoggedJudgment]:
        return read_judgments(self.log)

    def sample(self) -> LabelSample:
        return label_sample(self.pool, self.design, self.lines())

    def written(self, n: int) -> list[dict[str, str]]:
        self.units = next_units(self.sample(), n, self.documents)
        text = sheet_text(self.units, self.documents, self.queries, self.sample())
        self.file.write_text(text, encoding="utf-8", newline="")
        return sheet_rows(self.file)

    def fill(self, *cells: Mapping[str, str]) -> None:
        padded = [*cells, *({} for _ in range(len(self.rows) - len(cells)))]
        rows = [{**row, **cell} for row, cell in zip(self.rows, padded, strict=True)]
        write_sheet(self.file, rows)

    def read(self) -> list[LoggedJudgment]:
        answers, _ = read_sheet(self.file, self.documents, self.queries, self.design)
        new = new_judgments(answers, self.lines(), self.design, by="ada", at=AT)
        append_lines(self.log, new)
        return new


@pytest.fixture
def sheet(tmp_path: Path) -> Sheet:
    return Sheet(tmp_path)


def test_the_next_rows_come_back_once_with_their_probabilities(sheet: Sheet) -> None:
    order = [sheet.pool.items[number] for number in sheet.design.order()]
    assert sheet.units == order[:8]
    grades = ["0", "1", "2.0", "3", "?", "skip", "3.0", "0"]
    sheet.fill(*({"grade": grade} for grade in grades))
    assert len(sheet.read()) == 8
    touched = np.zeros(len(sheet.pool.items), np.bool_)
    touched[sheet.design.order()[:8]] = True
    p = sheet.design.drawn_probabilities(touched)
    status = {"?": CANNOT_TELL, "skip": SKIPPED}
    for line, unit, grade, row in zip(sheet.lines(), sheet.units, grades, sheet.rows, strict=True):
        number = sheet.pool.items.index(unit)
        assert line.item == unit
        assert (line.status, line.by, line.at) == (status.get(grade, JUDGED), "ada", AT)
        assert line.grade == (int(grade[0]) if grade[0].isdecimal() else None)
        assert line.probability == p[number]
        assert row["probability"] == f"{p[number]:.4g}"
    sample = sheet.sample()
    assert int(sample.judged.sum()) == 6
    assert int(sample.cannot_tell.sum()) == 1
    before = sheet.log.read_bytes()
    assert sheet.read() == []
    assert sheet.log.read_bytes() == before
    sheet.written(5)
    assert [*sheet.units] == [*order[8:], order[5]]  # what was skipped returns at the end


def test_probabilities_are_those_of_the_last_row_that_was_answered(sheet: Sheet) -> None:
    sheet.fill({"grade": "1"}, {}, {"grade": "0"})
    new = sheet.read()
    touched = np.zeros(len(sheet.pool.items), np.bool_)
    touched[sheet.design.order()[:3]] = True
    p = sheet.design.drawn_probabilities(touched)
    assert [line.probability for line in new] == [
        p[sheet.pool.items.index(sheet.units[number])] for number in (0, 2)
    ]
    sample = sheet.sample()  # the empty row was asked, and is missing
    assert int(sample.asked.sum()) == 3
    assert int(sample.judged.sum()) == 2


def test_a_skipped_row_can_be_answered_later(sheet: Sheet) -> None:
    sheet.fill({"grade": "skip"}, {"grade": "1"})
    sheet.read()
    sheet.fill({"grade": "3"}, {"grade": "skip"})
    (line,) = sheet.read()
    assert (line.item, line.grade) == (sheet.units[0], 3)
    assert sheet.lines()[-1] == line


def test_another_grade_than_the_log_has_is_refused(sheet: Sheet) -> None:
    sheet.fill({"grade": "1"}, {"grade": "2"})
    sheet.read()
    before = sheet.log.read_bytes()
    sheet.fill({"grade": "0"}, {"grade": "?"}, {"grade": "3"})
    with pytest.raises(DataError) as error:
        sheet.read()
    assert f"{sheet.file}:2: `grade`: is 0, but the log has 1 by 'ada'" in str(error.value)
    assert "(and 1 more rows); nothing was imported" in str(error.value)
    assert sheet.log.read_bytes() == before


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({"grade": "4"}, "`grade`: is '4'; allowed: 0 to 3, ? for cannot tell, or skip"),
        ({"grade": "yes"}, "`grade`: is 'yes'; allowed"),
        ({"evidence": "nowhere"}, "`grade`: is ''; allowed"),
        ({"grade": "2", "source": "judge:tiny"}, "`source`: is 'judge:tiny'; verdicts and votes"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_written(
    tmp_path: Path, cells: dict[str, str], problem: str
) -> None:
    """Verdicts and votes are among it: what has another source than people is no label."""
    sheet = Sheet(tmp_path, n=12)
    # Rows whose cells hold line ends come last: the third one begins on line 4.
    sheet.rows.sort(key=lambda row: "\n" in "".join(row.values()).replace("\r", "\n"))
    sheet.rows = [{**row, "source": "person"} for row in sheet.rows]
    sheet.fill({"grade": "1"}, {"grade": "1"}, cells)
    with pytest.raises(DataError) as error:
        sheet.read()
    assert f"{sheet.file}:4: {problem}" in str(error.value)
    assert not sheet.log.exists()


def test_sheets_that_are_refused(sheet: Sheet) -> None:
    rows = sheet.rows
    sheet.rows = [rows[0], rows[0]]
    sheet.fill({"grade": "1"}, {"grade": "2"})
    with pytest.raises(DataError, match="contradicts line 2"):
        sheet.read()
    sheet.rows = [{k: v for k, v in row.items() if k != "end"} for row in rows]
    sheet.fill({"grade": "1"})
    with pytest.raises(DataError, match=r"sheet.csv:1: lacks the columns end"):
        sheet.read()
    sheet.rows = rows
    sheet.fill({"grade": "1"})
    others = tuple(item for item in sheet.design.items if item != sheet.units[0])
    sheet.design = replace(sheet.design, items=others)
    with pytest.raises(DataError, match=r"`text`: .* is not a passage in the sample of this"):
        sheet.read()
