from __future__ import annotations

import pytest

from rag_assets.report import board_columns
from rag_assets.report.board_columns import (
    ACCOUNTING,
    BOARD_COLUMNS,
    LEADING,
    NOTEBOOK,
    PAGE,
    TERMINAL,
    BoardColumn,
    columns_of,
)
from rag_assets.schemas import COUNT, FLOAT, LEADERBOARD, Column

FACES = (TERMINAL, PAGE, NOTEBOOK, ACCOUNTING)


def test_every_stored_column_is_declared_once_and_has_a_help_text() -> None:
    names = [*LEADING, *(column.name for column in BOARD_COLUMNS)]
    assert len(names) == len(set(names))
    assert {column.name for column in LEADERBOARD.columns} <= set(names)
    assert all(column.help for column in BOARD_COLUMNS)


def test_a_column_that_is_only_stored_stands_in_the_accounting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = (Column("n_cut_texts", COUNT, "cut texts"), Column("spread", FLOAT, "a spread"))
    schema = type(LEADERBOARD)("x", "x", LEADERBOARD.key, (*LEADERBOARD.columns, *added))
    monkeypatch.setattr(board_columns, "LEADERBOARD", schema)
    monkeypatch.setattr(board_columns, "BOARD_COLUMNS", board_columns._all_columns())
    *_, count, spread = columns_of(ACCOUNTING, [])
    assert (count.title, count.text(3), count.help) == ("cut texts", "3", "cut texts")
    assert (spread.title, spread.text(0.25)) == ("spread", "0.2500")
    assert [c.name for c in columns_of(TERMINAL, [])] == ["speed"]


def test_what_no_row_has_is_left_out() -> None:
    row = {"tokens": 0.0, "n_failed": 0}
    names = {face: [column.name for column in columns_of(face, [row])] for face in FACES}
    assert names[TERMINAL] == ["tokens", "speed"]
    assert names[PAGE] == ["tokens", "speed", "cost_time"]
    assert names[NOTEBOOK] == ["speed"]
    assert "n_failed" in names[ACCOUNTING]
    assert "n_failed" in [c.name for c in columns_of(PAGE, [row, {"n_failed": 1}])]


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [("d", 3, "3"), (".2f", 0.125, "0.12"), (".0%", 0.5, "50 %"), (".0f", None, "")],
)
def test_a_value_is_written_in_the_form_of_its_column(
    form: str, value: float | None, text: str
) -> None:
    column = BoardColumn("x", "x@{top_k}", form)
    assert column.text(value) == text
    assert column.text(value, "-") == (text or "-")
    assert column.heading(10) == "x@10"
