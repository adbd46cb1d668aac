"""The page: its sections, excerpts, explorer, identity, and what it holds as data."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.analysis.charts import against_time, charts, pareto_front
from rag_assets.analysis.comparisons import names_of, oriented
from rag_assets.analysis.label_health import labels
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.report.html import identity, is_at, render, write_report
from rag_assets.report.page import explorer as module
from rag_assets.report.page.explorer import TEXT_CHARACTERS, Unit, excerpts, explorer
from rag_assets.report.page.page import SECTIONS, headline, milliseconds
from rag_assets.sheets.environment import _code as code
from rag_assets.sheets.environment import escaped_json
from tests.tiny_experiment import Tiny
from tests.walked_page import DOCS


def built(context: Row | None) -> Row:
    assert context is not None
    return context


def test_six_queries_show_nothing(tiny_result: EvaluationResult) -> None:
    """p of 6 differences is at least 2 / 64 before Holm over 10 pairs."""
    head = headline(tiny_result)
    assert head["next"] is None
    assert set(head["answer"].tied) == set(tiny_result.retrievers[1:])
    assert head["answer"].title.startswith("No winner yet: ")


def with_times(tiny_result: EvaluationResult, **milliseconds: float) -> EvaluationResult:
    """The same evaluation, had its queries taken so long."""
    slow = dict.fromkeys(tiny_result.retrievers, 10.0)
    timed = EvaluationResult(tiny_result.root, tiny_result.evaluation)
    timed.__dict__["speed"] = {**slow, **milliseconds}
    return timed


def test_what_was_not_measured_is_named_and_on_no_front(tiny_result: EvaluationResult) -> None:
    best = tiny_result.retrievers[0]
    timed = with_times(tiny_result)
    del timed.__dict__["speed"][best]
    found = built(charts(timed))
    assert (found["unmeasured"], best in found["front"]) == ([best], False)
    drawn = found["data"]()["pareto"][""]["data"]
    assert best not in {trace.get("name") for trace in drawn}
    assert "fastest" not in str(headline(timed)["answer"].sentences)


def test_comparisons_and_charts_hold_what_was_computed(tiny_result: EvaluationResult) -> None:
    one, other = tiny_result.retrievers[0], tiny_result.retrievers[-1]
    (row,) = (row for row in tiny_result.comparisons if {one, other} == {*names_of(row)})
    ahead, behind = oriented(row, one), oriented(row, other)
    assert ahead["difference"] == -behind["difference"]
    assert (ahead["low"], ahead["high"]) == (-behind["high"], -behind["low"])
    assert ahead["low"] <= ahead["difference"] <= ahead["high"]
    assert (ahead["won"], ahead["lost"]) == (behind["lost"], behind["won"])


def test_charts_hold_every_mean_with_its_interval(tiny_result: EvaluationResult) -> None:
    data = built(charts(tiny_result))["data"]()
    cells = {(row["retriever"], f"@{row['top_k']}"): row for row in tiny_result.rows}
    for measure in tiny_result.measures:
        (bars, curves) = (data[name][measure]["data"] for name in ("bars", "curves"))
        lines = {trace["name"]: trace for trace in curves if trace["mode"] == "lines+markers"}
        for trace in bars:
            assert (trace["error_y"]["color"], trace["marker"]["opacity"]) == ("var(--ink)", 0.75)
            for place, name in enumerate(trace["x"]):
                row = cells[trace["name"], name]
                assert trace["y"][place] == lines[trace["name"]]["y"][place] == row.get(measure)
                interval = tiny_result.intervals[trace["name"], row["top_k"], measure]
                above = trace["error_y"]["array"][place]
                assert row[measure] + above == pytest.approx(interval["high"])
    sheet = labels(tiny_result)["sheet"]
    names = {column.title: column.name for column in sheet.columns}
    for row in sheet.rows:
        parts = [row[names[title]] for title in ("answered", "empty", "failed")]
        assert sum(parts) == row[names["attempted"]] == 6


POINTS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2),
    st.tuples(st.integers(0, 4), st.integers(1, 4)),
    max_size=8,
)


@given(POINTS, st.sampled_from(["ndcg@5", "fp@5"]))
def test_the_pareto_front_is_what_nothing_beats(
    points: dict[str, tuple[int, int]], metric: str
) -> None:
    quality = {name: float(point[0]) for name, point in points.items()}
    cost = {name: float(point[1]) for name, point in points.items()}
    front = pareto_front(metric, quality, cost)
    gain = {name: -value if metric == "fp@5" else value for name, value in quality.items()}
    for name in points:
        beaten = any(
            (gain[other] > gain[name] and cost[other] <= cost[name])
            or (gain[other] >= gain[name] and cost[other] < cost[name])
            for other in points
        )
        assert (name in front) == (not beaten)
    assert [cost[name] for name in front] == sorted(cost[name] for name in front)


@pytest.mark.parametrize("ms", [(2.2, 4.0), (21.0, 21.0), (0.03, 0.9), (0.8, 60.0)])
def test_the_axis_of_time_has_at_least_two_ticks(ms: tuple[float, float]) -> None:
    traces = [{"type": "scatter", "x": [time], "y": [0.5]} for time in ms]
    values = dict.fromkeys("ab", 0.5)
    axis = against_time(
        "mrr@5", values, dict(zip("ab", ms, strict=True)), traces, "light"
    ).layout.xaxis
    inside = [t for t in axis.tickvals or () if axis.range[0] <= math.log10(t) <= axis.range[1]]
    assert 2 <= len(inside) <= 6


def test_without_a_value_nothing_is_recommended(tiny_result: EvaluationResult) -> None:
    kept: list[Any] = [
        entry for entry in tiny_result.evaluation.entries if entry.asset in ("queries", "documents")
    ]
    evaluation = dataclasses.replace(tiny_result.evaluation, entries=tuple(kept))
    tiny_result = EvaluationResult(tiny_result.root, evaluation)
    assert headline(tiny_result)["winner"] is None
    shown = [
        part.name for parts in SECTIONS.values() for part in parts if part.variables(tiny_result)
    ]
    assert shown == ["overlaps", "labels", "provenance"]


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
    for title, parts in SECTIONS.items():
        assert f"\n| {title.lower()} |" in page
        assert all(part.title.lower() in page.lower() for part in parts)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.294, "0.294 ms"), (7.126, "7.13 ms"), (294.12, "294 ms"), (2239.95, "2,240 ms")],
)
def test_a_time_is_never_a_power_of_ten(value: float, text: str) -> None:
    assert milliseconds(value) == text


LONG = "".join(chr(0x1F600 + n % 50) if n % 7 == 0 else "ab c"[n % 4] for n in range(5_000))


@given(st.integers(0, 4_000), st.integers(1, 1_000), st.integers(0, 4_999))
def test_an_excerpt_is_a_part_of_its_unit_and_holds_its_evidence(
    start: int, size: int, evidence: int
) -> None:
    unit = Unit("d", start, start + size)
    found = excerpts({"d": ("", LONG)}, [unit], {"d": [evidence]})[unit]
    assert found.text == LONG[found.start : found.start + len(found.text)]
    assert unit.start <= found.start
    assert found.start + len(found.text) <= unit.end
    assert len(found.text) == min(size, TEXT_CHARACTERS)


def test_the_last_are_left_out_when_room_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEXT_BYTES", 10_000)
    documents = {f"d{n}": ("", "<" * 5_000) for n in range(100)}
    units = [Unit(name, 0, 5_000) for name in documents]
    found = excerpts(documents, units, {})
    # An escaped "<" takes six bytes, and the quotes around a text two.
    assert len(found) == 10_000 // (6 * TEXT_CHARACTERS + 2) == 2
    assert list(found) == units[: len(found)]


def test_a_page_that_says_the_same_is_left_alone(
    tiny_result: EvaluationResult, tmp_path: Path
) -> None:
    file = write_report(tiny_result, tmp_path / "page.html")
    before = file.stat()
    later = dataclasses.replace(tiny_result.evaluation, evaluation_id="later", finished="later")
    write_report(EvaluationResult(tiny_result.root, later), file)
    after = file.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("changed", [{"complete": False}, {"primary": "mrr@5"}, {"entries": ()}])
def test_what_an_evaluation_says_is_in_the_identity(
    tiny_result: EvaluationResult, changed: dict[str, object]
) -> None:
    other = dataclasses.replace(tiny_result.evaluation, **changed)  # type: ignore[arg-type]
    assert identity(EvaluationResult(tiny_result.root, other)) != identity(tiny_result)


def test_rendering_is_repeatable(tiny_result: EvaluationResult, tmp_path: Path) -> None:
    file = write_report(tiny_result, tmp_path / "page.html")
    assert file.read_text(encoding="utf-8") == render(tiny_result)
    assert is_at(file, identity(tiny_result))


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT)
def test_every_text_comes_back(text: str) -> None:
    assert json.loads(escaped_json(text)) == text


@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_nothing_in_it_ends_a_block(value: object) -> None:
    found = escaped_json(value)
    assert not set(found) & set("<>&\u2028\u2029")
    found.encode("utf-8")


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        escaped_json(float("nan"))


@pytest.fixture(scope="module")
def context(tiny_result: EvaluationResult) -> Row:
    found = built(explorer(tiny_result))
    return {**found, "data": found["data"]()}


def test_results_and_texts_are_those_of_run_and_documents(
    tiny_result: EvaluationResult, context: Row
) -> None:
    data = context["data"]
    for number, name in enumerate(data["retrievers"]):
        run = tiny_result.table(tiny_result.run_keys(name)[5]).to_pylist()
        for query in data["queries"]:
            wanted = [row["document_id"] for row in run if row["query_id"] == query["i"]]
            units = [data["units"][unit] for unit in query["r"][number]]
            assert [data["documents"][unit[0]][0] for unit in units] == wanted
    rows = tiny_result.table_of("documents").to_pylist()
    texts = {row["document_id"]: row["text"] for row in rows}
    assert context["n_without_text"] == 0
    for document, start, end, first, text in data["units"]:
        assert (first, text) == (start, texts[data["documents"][document][0]][start:end])
    spans = [(document, start, end) for document, start, end, *_ in data["units"]]
    assert len(spans) == len(set(spans))


def test_relevant_results_evidence_and_order(context: Row) -> None:
    """Without a relevant result the value is 0, with one it is above."""
    data = context["data"]
    for query in data["queries"]:
        for number in range(len(data["retrievers"])):
            assert (query["v"][number] > 0) == bool(query["h"][number])
    (query,) = (query for query in data["queries"] if query["i"] == "q3")
    assert len(query["e"]) == 2
    for one in query["e"]:
        ((_, start, end),) = one["s"]
        assert start < end
        for rank, place in zip(one["k"], one["l"], strict=True):
            if data["places"][place] == "found":
                assert 1 <= rank <= data["k"]
    spreads = [max(query["v"]) - min(query["v"]) for query in context["data"]["queries"]]
    assert spreads == sorted(spreads, reverse=True)


def test_queries_that_do_not_fit_are_left_out_and_counted(
    tiny_result: EvaluationResult, monkeypatch: pytest.MonkeyPatch, context: Row
) -> None:
    monkeypatch.setattr(module, "CELLS", 11)
    found = built(explorer(tiny_result))
    assert (found["n_shown"], found["n_queries"]) == (2, 6)
    kept = [query["i"] for query in found["data"]()["queries"]]
    assert kept == [query["i"] for query in context["data"]["queries"][:2]]


def test_without_labels_a_judged_document_is_shown_by_its_best_chunk(
    computed: Tiny, tmp_path: Path
) -> None:
    tiny = Tiny(tmp_path / "tiny").start_from(computed)
    tiny.config["dataset"]["judge"] = "document"
    tiny.write()
    (tiny.folder / "judgments.jsonl").unlink()
    tiny.run()
    result = EvaluationResult(tiny.artifacts, tiny.snapshot())
    found = explorer(result)
    assert found is not None
    data = found["data"]()
    starts = {
        row["chunk_id"]: row["start"]
        for entry in result.evaluation.entries_of("chunks")
        for row in result.table(entry.key).to_pylist()
    }
    number = data["retrievers"].index("bm25")
    run = result.table(result.run_keys("bm25")[5]).to_pylist()
    for query in data["queries"]:
        wanted = [starts[row["chunk_id"]] for row in run if row["query_id"] == query["i"]]
        assert [data["units"][unit][1] for unit in query["r"][number]] == wanted
    assert any(start > 0 for _, start, *_ in data["units"])
    page = write_report(result, has_explorer=True).read_text(encoding="utf-8")
    assert "<h1>No labels yet</h1>" in page
    assert len(page) < 200_000, "nothing is drawn, so there is no plotly"
