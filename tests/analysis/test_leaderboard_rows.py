"""Leaderboards: columns, rows, slices, forms of values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rag_assets.analysis.label_health import accounting_columns
from rag_assets.analysis.leaderboard import measured_columns, selected_rows, summary_sheet
from rag_assets.analysis.result import LEADING, EvaluationResult
from rag_assets.analysis.slices import members_by, slices
from rag_assets.errors import UsageError
from rag_assets.evaluation.metric_names import is_gain
from rag_assets.pipeline.selection import Selection
from rag_assets.plain_text import plain
from rag_assets.schemas import COUNT, FLOAT, LEADERBOARD, QUERY_METRICS
from rag_assets.schemas import Column as Stored
from rag_assets.sheets.formats import columns_of, formatted
from rag_assets.sheets.sheet import TEXT, Column, Sheet, metric_column
from rag_assets.sheets.terminal_table import FittedTable
from tests.labels.health.tables import documents, qrels, queries


def test_rows_and_columns_of_the_board(tiny_result: EvaluationResult) -> None:
    two = ("okapi", "bm25")
    board = tiny_result.leaderboard.to_pylist()
    places = {row["retriever"]: row["position"] for row in board if row["top_k"] == 5}
    rows = selected_rows(tiny_result, Selection(two, (5,)))
    assert {row["retriever"]: row["position"] for row in rows} == {n: places[n] for n in two}
    assert rows == sorted(rows, key=lambda row: row["position"])
    assert selected_rows(tiny_result, Selection((), (5,))) == []
    columns = [*accounting_columns(), *measured_columns(5)]
    names = {*LEADING, "weight", *(column.name for column in columns)}
    assert {column.name for column in LEADERBOARD.columns} <= names
    assert all(column.help for column in columns)
    cut = Stored(COUNT, "cut texts", name="n_cut_texts")
    spread = Stored(FLOAT, "a spread", name="spread")
    *_, count, shown = accounting_columns((*LEADERBOARD.columns, cut, spread))
    assert count.title == count.help == "cut texts"
    assert count.text({"n_cut_texts": 3}) == "3"
    assert (shown.title, shown.text({"spread": 0.25})) == ("spread", "0.2500")


EQUAL = {"q1": 1.0, "q2": 1.0, "q3": 1.0}
META = {"d1": {"lang": "en", "year": 2020}, "d2": {"lang": ["en", "sv"]}, "d3": {"lang": None}}


def table_of() -> Callable[[str], pa.Table]:
    tags = {"q1": ["a"], "q2": ["a", "b"]}
    teams = {"q1": {"team": "x"}, "q2": {"team": "y"}}
    judged = [("q1", "d1", 1), ("q2", "d2", 2), ("q2", "d1", 0), ("q3", "d3", 1)]
    tables = {
        "documents": documents(dict.fromkeys(META, ""), META),
        "queries": queries(dict.fromkeys(EQUAL, ""), tags, teams),
        "qrels": qrels(*[(query, name, name, None, grade) for query, name, grade in judged]),
    }
    return tables.__getitem__


def cell(*values: float | None) -> pa.Table:
    counts = {"n_relevant": 1, "n_unreachable": 0, "n_retrieved": 1, "n_judged": 1, "failed": False}
    rows = [{"query_id": f"q{n}", **counts, "mrr": v} for n, v in enumerate(values, 1)]
    schema = pa.schema([*QUERY_METRICS.arrow(), pa.field("mrr", pa.float64())])
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.mark.parametrize(
    ("by", "members"),
    [
        ("tag", {"a": {"q1", "q2"}, "b": {"q2"}}),
        ("query.team", {"x": {"q1"}, "y": {"q2"}}),
        # d1 is judged not relevant for q2, so q2 is in none of its slices.
        ("document.lang", {"en": {"q1", "q2"}, "sv": {"q2"}}),
        ("document.year", {"2020": {"q1"}}),
    ],
)
def test_members(by: str, members: dict[str, set[str]]) -> None:
    assert members_by(by, table_of()) == members


def test_means() -> None:
    """en: q1, q2: (1 + 0.5) / 2 = 0.75 and (0 + 1) / 2 = 0.5; sv: q2 alone."""
    found = slices(
        {"r": cell(1.0, 0.5, 0.0), "s": cell(0.0, 1.0, 1.0)},
        members_by("document.lang", table_of()),
        "mrr",
        EQUAL,
    )
    assert [(one.value, one.n_queries, one.means) for one in found] == [
        ("en", 2, {"r": 0.75, "s": 0.5}),
        ("sv", 1, {"r": 0.5, "s": 1.0}),
    ]


def test_slices_of_weights_splits_and_failures() -> None:
    """q1 counts 3, q2 once, q3 is in the other split: (3 x 1 + 0.5) / 4."""
    found = slices({"r": cell(None, 0.5, 0.0)}, {"all": {"q1", "q2"}, "none": {"q1"}}, "mrr", EQUAL)
    assert [(one.value, one.n_queries, one.means) for one in found] == [("all", 1, {"r": 0.5})]
    weights = {"q1": 3.0, "q2": 1.0}
    (one,) = slices({"r": cell(1.0, 0.5, 0.0)}, {"v": {"q1", "q2", "q3"}}, "mrr", weights)
    assert (one.n_queries, one.means) == (2, {"r": 0.875})
    (one,) = slices({"r": cell(None, None), "s": cell(0.5, 0.0)}, {"v": {"q1", "q2"}}, "mrr", EQUAL)
    assert one.means == {"r": None, "s": 0.25}


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        ("colour", "slices by 'colour'; allowed: tag, query.<field>, document.<field>"),
        ("document.", "slices by 'document.'; allowed: tag, query.<field>, document.<field>"),
        (
            "document.lnag",
            "no document has the field 'lnag' (did you mean 'lang'?); allowed: lang, year",
        ),
        ("query.lang", "no query has the field 'lang'; allowed: team"),
    ],
)
def test_what_there_is_no_slice_by(by: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        members_by(by, table_of())
    assert str(caught.value) == problem


def test_small_numbers_and_p_values_never_become_0() -> None:
    rows: list[dict[str, object]] = [{"p_randomisation": 0.00001, "p_t": 0.0, "difference": 0.0}]
    assert formatted(rows, "markdown").splitlines()[2] == r"| 1.0e-05 | \<1e-300 | 0.0000 |"
    rows = [{"p": 7.9e-06}, {"p": -2e-5}, {"p": 0.0}, {"p": 0.0001}]
    lines = formatted(rows, "markdown").splitlines()[2:]
    assert lines == ["| 7.9e-06 |", "| -2.0e-05 |", "| 0.0000 |", "| 0.0001 |"]


def test_the_lowest_is_best_where_mistakes_are_counted_on_every_face() -> None:
    values: dict[str, dict[str, float | None]] = {"a": {"fp": 2.0}, "b": {"fp": 1.0}, "c": {}}
    column = metric_column("fp")
    sheet = Sheet("", (Column("name", "name", TEXT), column), list(values.values()))
    assert [sheet.is_best(column, row) for row in sheet.rows] == [False, True, False]
    assert (is_gain("fp(rel=2)@5", -1), is_gain("recall@5", -1)) == (True, False)


def test_what_limits_several_retrievers_is_said_once(tiny_result: EvaluationResult) -> None:
    cells = [row for row in tiny_result.leaderboard.to_pylist() if row["top_k"] == 5][:3]
    rows = [{**row, "n_tied": n, "n_failed": 2} for n, row in enumerate(cells, 1)]
    a, b, c = (row["retriever"] for row in rows)
    failed, tied = summary_sheet(tiny_result, rows).notes[-2:]
    assert failed == f"{a} !, {b} !, {c} !: failed on 2 of 6 queries, which count in no mean"
    assert tied.startswith(f"{a}, {b}, {c}: equal scores on both sides of the cut in up to 3 of")
    assert "`rag-assets leaderboard PATH --ties` shows" in tied


def test_only_a_mean_between_0_and_1_that_should_be_high_has_a_bar() -> None:
    for name in ("dcg", "dcg_exp@3", "idcg", "cg(rel=2)", "tp", "tn", "own_x", "fp", "fn@5"):
        assert metric_column(name).bar({name: 0.5}) is None
    assert metric_column("ndcg").bar({"ndcg": 0.5}) == 0.5


ROWS: list[dict[str, object]] = [
    {"retriever": "a", "top_k": 1, "ndcg": 0.123456},
    {"retriever": "b", "ndcg": None, "map": 1.0},
]
# Control characters are no part of a name; a lone surrogate cannot be written at all.
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)


def test_columns_have_one_order_and_json_keeps_values() -> None:
    rows: list[dict[str, object]] = [
        {"retriever": "a", "ndcg": 1.0, "evaluation_id": "e"},
        {"retriever": "b", "ndcg": 0.9, "cost_time": 2.0, "evaluation_id": "e"},
    ]
    expected = ["retriever", "ndcg", "cost_time", "evaluation_id"]
    assert columns_of(rows) == columns_of(rows[::-1]) == expected
    assert columns_of(ROWS) == ["retriever", "top_k", "ndcg", "map"]
    assert columns_of([]) == []
    rows = [{"name": "caf\u00e9 \U0001f600", "value": 0.1 + 0.2, "n": None}]
    text = formatted(rows, "json")
    assert json.loads(text) == rows
    assert "caf\u00e9 \U0001f600" in text
    assert text.endswith("]\n")
    assert formatted([], "json") == "[]\n"
    rows = [{"\x1b": "\x9b\x7f\u202e\U000e0041\u200d"}]
    text = formatted(rows, "json")
    assert json.loads(text) == rows
    assert "\\u009b\\u007f\\u202e\\udb40\\udc41\u200d" in text


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


@given(st.lists(st.fixed_dictionaries({"a": st.text(), "b": st.text()}), min_size=1, max_size=5))
def test_markdown_has_one_line_a_row_and_one_cell_a_column(rows: list[dict[str, object]]) -> None:
    lines = formatted(rows, "markdown").split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(rows) + 2
    for line in lines:
        assert line.replace("\\|", "").count("|") == 3


@pytest.mark.parametrize("width", range(50, 90, 5))
def test_a_narrow_table_folds_texts_of_different_widths_and_cuts_no_number(width: int) -> None:
    table = FittedTable()
    for name in ("documentation_section", "retriever"):
        table.add_column(name, overflow="fold")
    for name in ("ndcg@10", "recall@10", "mrr@10"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("a section of some length here", "bm25-of-all-chunks", "0.1234", "0.5678", "0.9")
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    text = capture.get()
    for number in ("0.1234", "0.5678"):
        assert number in text or "not shown" in text
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
