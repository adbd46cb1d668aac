"""Results in a notebook: data frames, HTML and figures."""

from __future__ import annotations

import sys

import pytest

from rag_assets.analysis import charts as palette
from rag_assets.analysis.comparisons import Comparison
from rag_assets.analysis.history import MetricHistory
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.pipeline.history import History
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.sheets.notebook import MAX_ROWS, Tabular, table_html, table_text
from rag_assets.sheets.sheet import TEXT, Column, Sheet
from tests.report.test_html_report import Page
from tests.tiny_experiment import Tiny

HOSTILE = "</td><script>alert(1)</script>\u202e & 'co'"


@pytest.fixture(scope="session")
def changed(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> EvaluationTable:
    """The tiny experiment after its labels changed, and then a retriever."""
    tiny = Tiny(tmp_path_factory.mktemp("notebook")).start_from(computed)
    tiny.config["top_k"] = [1, 3, 5]
    names = ("bm25", "bm25-whole")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in names}
    tiny.write().run()
    tiny.snapshot()
    tiny.replace("judgments.jsonl", "A dog needs a ticket of 10 crowns.", "Children under six")
    tiny.run()
    tiny.snapshot()
    tiny.configure("bm25", k1=0.1, b=0.0)
    tiny.run()
    return EvaluationTable(tiny.artifacts, tiny.snapshot())


@pytest.fixture
def over_time(changed: EvaluationTable) -> MetricHistory:
    return MetricHistory.of(History(changed.root, None))


@pytest.mark.parametrize("kind", ["evaluation", "pairs", "pair", "history"])
def test_frames_hold_the_rows_of_the_table(changed: EvaluationTable, kind: str) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    results: dict[str, Tabular] = {
        "evaluation": changed,
        "pairs": Comparison.of(changed),
        "pair": Comparison.of(changed, ("bm25-whole", "bm25")),
        "history": MetricHistory.of(History(changed.root, None)),
    }
    result = results[kind]
    table, frame, polars = result.to_arrow(), result.to_pandas(), result.to_polars()
    assert table.num_rows > 0
    assert list(frame.columns) == polars.columns == table.column_names
    assert polars.to_dicts() == table.to_pylist()
    for name in table.column_names:
        assert frame[name].isna().sum() == table[name].null_count
    numbers = "ndcg" if kind == "evaluation" else "value" if kind == "history" else "difference"
    assert frame[numbers].tolist() == table[numbers].to_pylist()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named_with_its_extra(
    changed: EvaluationTable, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"{package}: pip install 'rag-assets\[notebook\]'"):
        getattr(changed, f"to_{package}")()


def test_a_figure_has_the_means_with_intervals(changed: EvaluationTable) -> None:
    drawn = changed.plot("mrr").to_dict()["data"]
    view = changed
    assert [trace["name"] for trace in drawn] == view.retrievers
    for trace in drawn:
        assert list(trace["x"]) == ["@1", "@3", "@5"]
        for k, mean, up in zip((1, 3, 5), trace["y"], trace["error_y"]["array"], strict=True):
            interval = view.intervals[trace["name"], k, "mrr"]
            assert mean + up == pytest.approx(interval["high"])
    with pytest.raises(UsageError, match="unknown metric 'recal'"):
        changed.plot("recal")


def test_lines_and_points_of_figures(over_time: MetricHistory, changed: EvaluationTable) -> None:
    drawn = over_time.plot().to_dict()
    values = {name: [] for name in ("bm25", "bm25-whole")}  # type: dict[str, list[float]]
    for row in over_time.rows:
        values[row["retriever"]].append(row["value"])
    for trace in drawn["data"]:
        one, two, three = values[trace["name"]]
        assert list(trace["x"]) == [1, 1.5, 2, 3]
        assert list(trace["y"]) == [one, None, two, three]
    assert [shape["x0"] for shape in drawn["layout"]["shapes"]] == [1.5]


def test_paths_of_quality_against_time(changed: EvaluationTable) -> None:
    """Money is planted beside the measured time: bm25 costs four times what bm25-whole does."""
    milliseconds = {"bm25": 8.0, "bm25-whole": 2.0}
    over_time = MetricHistory.of(History(changed.root, None))
    for row in over_time.rows:
        row["cost_time"] = milliseconds[row["retriever"]]
    over_time.rows[-2]["query_cost"], over_time.rows[-1]["query_cost"] = 0.001, 0.004
    front, *paths = over_time.plot(over="cost_time").to_dict()["data"]
    values = {row["retriever"]: row["value"] for row in over_time.rows[-2:]}
    for path in paths:
        name, rows = path["name"], [r for r in over_time.rows if r["retriever"] == path["name"]]
        ms = milliseconds[name]
        assert list(path["x"]) == [ms, None, ms, ms], "other labels are other questions"
        assert list(path["y"]) == [rows[0]["value"], None, rows[1]["value"], rows[2]["value"]]
        assert [symbol.endswith("-open") for symbol in path["marker"]["symbol"]] == [
            *[True] * 3,
            False,
        ]
        share = (rows[2]["query_cost"] / 0.004) ** 0.5
        assert list(path["marker"]["size"]) == [9, 9, 9, 9 + 12 * share]
        (said,) = path["customdata"][3]
        assert said.startswith(f"{ms:.3g} ms, money {rows[2]['query_cost']:.4g}<br>20")
        assert said.endswith("bm25.k1 1.2 -&gt; 0.1"), "no HTML for plotly"
    best = ["bm25-whole", *(["bm25"] if values["bm25"] > values["bm25-whole"] else [])]
    assert list(zip(front["x"], front["y"], strict=True)) == [
        (milliseconds[name], values[name]) for name in best
    ]
    with pytest.raises(UsageError, match="unknown over 'ndcg'; allowed: cost_time"):
        over_time.plot(over="ndcg")
    rows = [{name: row[name] for name in row if name != "cost_time"} for row in over_time.rows]
    untimed = MetricHistory("tiny", over_time.source, rows)
    with pytest.raises(NotEvaluated, match="no cell of ndcg@5 was timed in these evaluations"):
        untimed.plot(over="cost_time")


def test_the_board_and_the_history_know_the_same_costs(changed: EvaluationTable) -> None:
    for row in changed.to_arrow().to_pylist():
        name, top_k, ms = row["retriever"], row["top_k"], row["cost_time"]
        assert ms == changed.cost_times[name, top_k] > 0
        past = MetricHistory.of(History(changed.root, None), f"cost_time@{top_k}", [name])
        assert past.to_arrow()["value"].to_pylist()[-1] == ms
        beside = MetricHistory.of(History(changed.root, None), f"ndcg@{top_k}", [name])
        assert beside.to_arrow()["cost_time"].to_pylist()[-1] == ms


def test_figures_are_drawn_as_the_report_is() -> None:
    for theme in ("light", "dark", "page"):
        assert len({palette.style(number, theme)["colour"] for number in range(8)}) == 8
    assert palette.colours()["page"] == "#fff"
    assert palette.colours("dark")["page"] != "#fff"


def test_tables_are_escaped_and_say_what_they_leave_out() -> None:
    columns = (Column("text", HOSTILE, TEXT),)
    text = table_html(Sheet(HOSTILE, columns, [{"text": HOSTILE}], [HOSTILE], [HOSTILE]))
    assert "<script" not in text
    (table,) = Page(text).tables
    assert table[1] == [HOSTILE]
    assert "<" not in palette.plain(HOSTILE)
    rows = [{"number": number} for number in range(MAX_ROWS + 3)]
    text = table_html(Sheet("title", (Column("number", "number", "d"),), rows))
    (table,) = Page(text).tables
    assert len(table) == MAX_ROWS + 1
    assert "3 more rows are left out" in text


def test_a_table_as_text_has_the_intervals_of_its_first_mean_alone() -> None:
    rows = [
        {"name": "a", "mrr": 0.5, "low": 0.4, "high": 0.6, "map": 1.0, "min": 0.9, "max": 1.0},
        {"name": "longer", "map": 0.25},
    ]
    columns = (
        Column("name", "name", TEXT),
        Column("mrr", "mrr@1", bounds=("low", "high"), interval="interval"),
        Column("map", "map@1", bounds=("min", "max")),
    )
    shown = Sheet("title", columns, rows, ["said."], ["a note"])
    assert table_text(shown).splitlines() == [
        "title",
        "said.",
        "name     mrr@1          interval   map@1",
        "a       0.5000  [0.4000, 0.6000]  1.0000",
        "longer       -                 -  0.2500",
        "a note",
    ]


def test_a_table_as_text_holds_nothing_that_a_terminal_obeys() -> None:
    hostile = "\x1b[31mred\nline"
    rows = [{"text": hostile}] * (MAX_ROWS + 1)
    sheet = Sheet(hostile, (Column("text", hostile, TEXT),), rows, [hostile], [hostile])
    lines = table_text(sheet).splitlines()
    assert len(lines) == MAX_ROWS + 5
    assert lines[-1] == "1 more rows are left out"
    assert all(line.isprintable() for line in lines)
