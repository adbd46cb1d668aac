from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.report.formats import columns_of, formatted
from rag_assets.sources.sheets import plain

ROWS: list[dict[str, object]] = [
    {"retriever": "a", "top_k": 1, "ndcg": 0.123456},
    {"retriever": "b", "ndcg": None, "map": 1.0},
]
# Control characters are no part of a name; a lone surrogate cannot be written at all.
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)


def test_columns_have_one_order_whichever_row_is_first() -> None:
    rows: list[dict[str, object]] = [
        {"retriever": "a", "ndcg": 1.0, "evaluation_id": "e"},
        {"retriever": "b", "ndcg": 0.9, "cost_time": 2.0, "evaluation_id": "e"},
    ]
    expected = ["retriever", "ndcg", "cost_time", "evaluation_id"]
    assert columns_of(rows) == columns_of(rows[::-1]) == expected
    assert columns_of(ROWS) == ["retriever", "top_k", "ndcg", "map"]
    assert columns_of([]) == []


def test_json_keeps_values_and_letters() -> None:
    rows: list[dict[str, object]] = [
        {"name": "caf\u00e9 \U0001f600", "value": 0.1 + 0.2, "n": None}
    ]
    text = formatted(rows, "json")
    assert json.loads(text) == rows
    assert "caf\u00e9 \U0001f600" in text
    assert text.endswith("]\n")
    assert formatted([], "json") == "[]\n"


def test_markdown_has_four_places_and_no_number_becomes_0() -> None:
    rows: list[dict[str, object]] = [{"p": 7.9e-06}, {"p": -2e-5}, {"p": 0.0}, {"p": 0.0001}]
    assert formatted(rows, "markdown").splitlines()[2:] == [
        "| 7.9e-06 |",
        "| -2.0e-05 |",
        "| 0.0000 |",
        "| 0.0001 |",
    ]


def test_csv_leaves_missing_and_null_values_empty() -> None:
    assert formatted(ROWS, "csv") == ("retriever,top_k,ndcg,map\na,1,0.123456,\nb,,,1.0\n")


@pytest.mark.parametrize("text", ["a,b", 'say "x"', "two\nlines", "", " blank "])
def test_csv_escapes(text: str) -> None:
    written = formatted([{"name": text, "n": 1}], "csv")
    (row,) = csv.DictReader(io.StringIO(written, newline=""))
    assert row == {"name": text, "n": "1"}


@given(st.lists(st.fixed_dictionaries({"name": TEXTS, "x": st.floats(0, 1)}), min_size=1))
def test_csv_loses_nothing(rows: list[dict[str, object]]) -> None:
    found = list(csv.DictReader(io.StringIO(formatted(rows, "csv"), newline="")))
    assert [(plain(row["name"]), float(row["x"])) for row in found] == [
        (row["name"], row["x"]) for row in rows
    ]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@cmd", "'@cmd"),
        ("-2+3", "'-2+3"),
        ("\r=1", "'\r=1"),
        ("\uff1d1", "'\uff1d1"),
        ("'=x", "''=x"),
        (-0.1473, "-0.1473"),
        ("-.1473", "-.1473"),
        ("+1e-05", "+1e-05"),
        (-3, "-3"),
        ("a=1", "a=1"),
    ],
)
def test_csv_holds_no_formula_and_every_number(value: object, cell: str) -> None:
    header, row = list(
        csv.reader(io.StringIO(formatted([{"=name": value}], "csv"), newline=""), strict=True)
    )
    assert (header, row) == (["'=name"], [cell])
    assert plain(row[0]) == str(value)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("[x](http://y)", "[x\\](http://y)"),
        ("![i](y)", "![i\\](y)"),
        ("<img src=x>", "\\<img src=x>"),
        ("`a` *b* ~c~", "\\`a\\` \\*b\\* \\~c\\~"),
        ("a_b _c_", "a_b \\_c\\_"),
        ("&lt; & b", "\\&lt; & b"),
        ("C:\\x", "C:\\\\x"),
        ("# a", "\\# a"),
        ("- a", "\\- a"),
        ("1. a", "1\\. a"),
        ("-0.5 [0.1, 0.2]", "-0.5 [0.1, 0.2]"),
        ("\x1b]8;;x\x07\u202egpj", "\\\\x1b]8;;x\\\\x07\\\\u202egpj"),
    ],
)
def test_markdown_shows_a_text_as_it_is(text: str, cell: str) -> None:
    assert formatted([{text: text}], "markdown").splitlines() == [
        f"| {cell} |",
        "| --- |",
        f"| {cell} |",
    ]


def test_json_writes_out_what_a_terminal_obeys() -> None:
    rows: list[dict[str, object]] = [{"\x1b": "\x9b\x7f\u202e\U000e0041\u200d"}]
    text = formatted(rows, "json")
    assert json.loads(text) == rows
    assert "\\u009b\\u007f\\u202e\\udb40\\udc41\u200d" in text


def test_markdown_table() -> None:
    assert formatted(ROWS, "markdown") == (
        "| retriever | top_k | ndcg | map |\n"
        "| --- | --- | --- | --- |\n"
        "| a | 1 | 0.1235 |  |\n"
        "| b |  |  | 1.0000 |\n"
    )


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a|b", "a\\|b"),
        ("two\nlines", "two lines"),
        ("||", "\\|\\|"),
        ("a\r\nb", "a b"),
        ("a\rb", "a b"),
    ],
)
def test_markdown_escapes(text: str, cell: str) -> None:
    assert formatted([{"name": text}], "markdown").splitlines() == [
        "| name |",
        "| --- |",
        f"| {cell} |",
    ]


@given(st.lists(st.fixed_dictionaries({"a": st.text(), "b": st.text()}), min_size=1, max_size=5))
def test_markdown_has_one_line_a_row_and_one_cell_a_column(rows: list[dict[str, object]]) -> None:
    lines = formatted(rows, "markdown").split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(rows) + 2
    for line in lines:
        assert line.replace("\\|", "").count("|") == 3


def test_no_rows() -> None:
    assert [formatted([], form) for form in ("json", "csv", "markdown")] == ["[]\n", "", ""]
