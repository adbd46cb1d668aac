"""The columns of a leaderboard: declared once, each with a help text."""

from __future__ import annotations

import pytest

from rag_assets.report.board_columns import (
    LEADING,
    accounting_columns,
    measured_columns,
)
from rag_assets.report.sheet import Column, Sheet
from rag_assets.schemas import COUNT, FLOAT, LEADERBOARD
from rag_assets.schemas import Column as Stored


def test_every_stored_column_has_a_place_and_a_help_text() -> None:
    columns = [*accounting_columns(), *measured_columns(5)]
    names = {*LEADING, "weight", *(column.name for column in columns)}
    assert {column.name for column in LEADERBOARD.columns} <= names
    assert all(column.help for column in columns)


def test_a_column_that_is_only_stored_stands_in_the_accounting() -> None:
    added = (Stored("n_cut_texts", COUNT, "cut texts"), Stored("spread", FLOAT, "a spread"))
    *_, count, spread = accounting_columns((*LEADERBOARD.columns, *added))
    assert (count.title, count.text({"n_cut_texts": 3}), count.help) == (
        "cut texts",
        "3",
        "cut texts",
    )
    assert (spread.title, spread.text({"spread": 0.25})) == ("spread", "0.2500")


def test_what_no_row_has_is_left_out() -> None:
    def shown(*rows: dict[str, float]) -> list[str]:
        return [column.name for column in Sheet("", measured_columns(5), rows).shown]

    assert shown({"tokens": 0.0, "n_failed": 0}) == ["tokens", "speed", "cost_time"]
    assert "n_failed" in shown({}, {"n_failed": 1})


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [("d", 3, "3"), (".2f", 0.125, "0.12"), (".0%", 0.5, "50 %"), (".0f", None, "")],
)
def test_a_value_is_written_in_the_form_of_its_column(
    form: str, value: float | None, text: str
) -> None:
    assert Column("x", "x", form).text({"x": value}) == text
