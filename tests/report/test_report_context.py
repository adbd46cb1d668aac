from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.report.attribution import stages
from rag_assets.report.comparison_views import against, significance
from rag_assets.report.label_health import labels
from rag_assets.report.page.environment import _code as code
from rag_assets.report.page.leaderboard import (
    charts,
    headline,
    leaderboard,
    milliseconds,
    pareto_front,
)
from rag_assets.report.page.page import SECTIONS
from rag_assets.report.provenance import provenance
from rag_assets.report.result import EvaluationResult
from rag_assets.report.slice_tables import tag_slices
from rag_assets.report.view import Context, View
from tests.walked_page import DOCS


@pytest.fixture(scope="module")
def view(tiny_result: EvaluationResult) -> View:
    return View(tiny_result)


def built(context: Context | None) -> Context:
    assert context is not None
    return context


def test_the_headline_names_the_best_and_compares_it(view: View) -> None:
    board = view.result.leaderboard.to_pylist()
    best = board[0]["retriever"]
    head = headline(view)
    assert head["winner"]["retriever"] == best
    assert head["facts"][0]["value"] == f"{head['winner']['ndcg']:.4f}"
    others = [row["other"] for row in head["evidence"]]
    assert others[0] == view.retrievers[1]
    assert others.count("bm25") == (best != "bm25")
    assert all(row["difference"] >= 0 for row in head["evidence"])


def test_six_queries_show_nothing(view: View) -> None:
    """p of 6 differences is at least 2 / 64 before Holm over 10 pairs."""
    head = headline(view)
    assert not any(row["mark"] for row in head["evidence"])
    assert set(head["answer"].tied) == set(view.retrievers[1:])
    assert head["answer"].title.startswith("No winner yet: ")


def with_times(view: View, **milliseconds: float) -> View:
    """The same evaluation, had its queries taken so long."""
    slow = dict.fromkeys(view.retrievers, 10.0)
    timed = View(view.result)
    timed.__dict__["speed"] = {**slow, **milliseconds}
    return timed


def test_the_fastest_of_the_tied_is_named(view: View) -> None:
    last = view.retrievers[-1]
    found = headline(with_times(view, **{last: 2.0}))["answer"]
    assert (found.cheapest, found.milliseconds) == (last, 2.0)


def test_a_query_was_timed_for_every_retriever(view: View) -> None:
    assert set(view.speed) == set(view.retrievers)


def test_what_was_not_measured_is_named_and_on_no_front(view: View) -> None:
    best = view.retrievers[0]
    timed = with_times(view)
    del timed.__dict__["speed"][best]
    found = built(charts(timed))
    assert (found["unmeasured"], best in found["front"]) == ([best], False)
    assert best not in found["data"]["times"]
    assert headline(timed)["answer"].cheapest is None


def test_a_comparison_reads_the_same_from_both_sides(view: View) -> None:
    one, other = view.retrievers[0], view.retrievers[-1]
    ahead, behind = built(against(view, one, other)), built(against(view, other, one))
    assert ahead["difference"] == -behind["difference"]
    assert (ahead["low"], ahead["high"]) == (-behind["high"], -behind["low"])
    assert ahead["low"] <= ahead["difference"] <= ahead["high"]
    assert (ahead["won"], ahead["lost"]) == (behind["lost"], behind["won"])
    assert against(view, one, one) is None


def test_the_matrix_has_every_pair_twice_and_the_table_once(view: View) -> None:
    found = built(significance(view))
    names = found["names"]
    assert sorted(names) == sorted(view.retrievers)
    assert len(found["sheet"].rows) == len(names) * (len(names) - 1) // 2
    for row, name in enumerate(names):
        for column, other in enumerate(names):
            cell = found["matrix"][name][column]
            assert (cell is None) == (name == other)
            if cell is not None:
                assert cell["difference"] == -found["matrix"][other][row]["difference"]


def test_the_leaderboard_begins_with_the_primary_cut_off(view: View) -> None:
    found = built(leaderboard(view))
    assert [k for k, _ in found["boards"]] == [5, 1, 3]
    _, sheet = found["boards"][0]
    column, first = sheet.columns[2], sheet.rows[0]
    assert column.name == "ndcg"
    assert first["ndcg_low"] <= first["ndcg"] <= first["ndcg_high"]
    assert sheet.is_best(column, first)


def test_charts_hold_every_mean_with_its_interval(view: View) -> None:
    data = built(charts(view))["data"]
    for row in view.rows:
        place = data["retrievers"].index(row["retriever"]), data["cutoffs"].index(row["top_k"])
        for measure in data["measures"]:
            mean, low, high = data["values"][measure][place[0]][place[1]]
            assert mean == pytest.approx(row[measure], abs=1e-6)
            assert low <= mean <= high


POINTS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2),
    st.tuples(st.integers(0, 4), st.integers(1, 4)),
    max_size=8,
)


@given(POINTS)
def test_the_pareto_front_is_what_nothing_beats(points: dict[str, tuple[int, int]]) -> None:
    quality = {name: float(point[0]) for name, point in points.items()}
    cost = {name: float(point[1]) for name, point in points.items()}
    front = pareto_front(quality, cost)
    for name in points:
        beaten = any(
            (quality[other] > quality[name] and cost[other] <= cost[name])
            or (quality[other] >= quality[name] and cost[other] < cost[name])
            for other in points
        )
        assert (name in front) == (not beaten)
    assert [cost[name] for name in front] == sorted(cost[name] for name in front)


def test_what_was_not_timed_is_not_on_the_front() -> None:
    assert pareto_front({"a": 0.9, "b": 0.5}, {"b": 1.0}) == ["b"]


def test_a_flow_ends_with_what_was_found(view: View) -> None:
    found = built(stages(view))
    rows = {row["retriever"]: row for row in found["sheet"].rows}
    for name, flow in zip(found["data"]["retrievers"], found["data"]["flows"], strict=True):
        left = flow["n"]
        for step in flow["steps"]:
            left -= step["n_lost"]
            assert step["n_left"] == left
            assert step["n_lost"] > 0
        assert left == flow["found"] == rows[name]["found"]


def test_slices_are_those_of_the_result(view: View) -> None:
    rows = built(tag_slices(view))["sheet"].rows
    assert [(row["value"], row["n_queries"]) for row in rows] == [
        (one.value, one.n_queries) for one in view.result.slices()
    ]


def test_accounting_adds_up(view: View) -> None:
    sheet = labels(view)["sheet"]
    names = {column.title: column.name for column in sheet.columns}
    for row in sheet.rows:
        parts = [row[names[title]] for title in ("with results", "empty", "failed")]
        assert sum(parts) == row[names["queries"]] == 6


def test_provenance_has_command_versions_and_configurations(view: View) -> None:
    found = provenance(view)
    folder = Path(view.result.evaluation.source).parent.name
    assert found["command"] == f"rag-assets evaluate {folder}"
    assert {"rag-assets", "duckdb", "PyStemmer"} <= {name for name, _ in found["versions"]}
    assert '"k1":1.2' in found["configs"]["lexical_index bm25"]


def test_without_a_value_nothing_is_recommended(tiny_result: EvaluationResult) -> None:
    kept: list[Any] = [
        entry for entry in tiny_result.evaluation.entries if entry.asset in ("queries", "documents")
    ]
    evaluation = dataclasses.replace(tiny_result.evaluation, entries=tuple(kept))
    view = View(EvaluationResult(tiny_result.root, evaluation))
    assert headline(view)["winner"] is None
    shown = [section.name for section in SECTIONS if section.build(view) is not None]
    assert shown == ["overlaps", "labels", "provenance", "glossary"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no code", "no code"),
        ("say `a: <b>` & `c`", "say <code>a: &lt;b&gt;</code> &amp; <code>c</code>"),
        ("`a` and ` alone", "<code>a</code> and ` alone"),
        ("`<b>", "`&lt;b&gt;"),
    ],
)
def test_code_in_notes_is_marked_and_escaped(text: str, shown: str) -> None:
    assert code(text) == shown


def test_every_section_is_on_the_page_of_the_docs() -> None:
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    for section in SECTIONS:
        assert f"\n| {section.title.lower()} |" in page


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.294, "0.294 ms"), (7.126, "7.13 ms"), (294.12, "294 ms"), (2239.95, "2,240 ms")],
)
def test_a_time_is_never_a_power_of_ten(value: float, text: str) -> None:
    assert milliseconds(value) == text
