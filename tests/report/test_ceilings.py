from __future__ import annotations

import re

import pytest

from rag_assets.pipeline.selection import Selection
from rag_assets.report.attribution import attribution_rows
from rag_assets.report.html import render
from rag_assets.report.leaderboard import ceilings, result_rows
from rag_assets.report.result import EvaluationResult
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import QUERIES, Tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """q3 counts three times, and one of its two evidences is below the first rank of any input."""
    tiny = Tiny(tmp_path_factory.mktemp("ceilings") / "tiny").write()
    tiny.config |= {"primary": "recall@1", "metrics": ["recall"], "top_k": [1, 3], "weight": "n"}
    tiny.configure("narrow", type="rrf", inputs=["bm25", "bm25-whole"], candidates=1)
    weighted = [{**query, "n": 3 if query["query_id"] == "q3" else 1} for query in QUERIES]
    tiny.write_rows("queries.jsonl", weighted)
    return tiny


@pytest.fixture(scope="module")
def result(tiny: Tiny) -> EvaluationResult:
    return evaluated(tiny.pipeline())


def test_weighted_mean_of_what_the_inputs_hold(result: EvaluationResult) -> None:
    found = ceilings(result, "all")
    assert set(found) == {"hybrid", "shallow", "narrow"}
    assert found["hybrid"] == 1
    assert found["narrow"] == pytest.approx((5 * 1 + 3 * 0.5) / 8)
    (row,) = attribution_rows(result, ["narrow"])
    assert row["ceiling"] == pytest.approx(5.5 / 6), "attribution counts every query once"


def test_never_below_the_recall_of_its_cell(result: EvaluationResult, tiny: Tiny) -> None:
    rows = result_rows(result, Selection.of(tiny.pipeline().experiment), "all")
    with_ceiling = [row for row in rows if "ceiling" in row]
    assert {(row["retriever"], row["top_k"]) for row in with_ceiling} == {
        ("hybrid", 1),
        ("shallow", 1),
        ("narrow", 1),
    }
    assert all(float(str(row["ceiling"])) >= float(str(row["recall"])) for row in with_ceiling)


def test_terminal_shows_it_beside_the_interval(result: EvaluationResult) -> None:
    lines = shown(result)
    (header,) = (number for number, line in enumerate(lines) if line.endswith("ceiling"))
    values = {line.split()[0]: line.split()[-1] for line in lines[header + 1 : header + 7]}
    assert values["narrow"] == "0.8125"
    assert values["okapi"].endswith("]")


def test_report_shows_it(result: EvaluationResult) -> None:
    page = render(result)
    assert "<summary>Candidate ceiling</summary>" in page
    assert re.search(r'<th scope="row">narrow</th>.*>0.8125</span></td></tr>', page)


def test_no_base_retriever_has_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    tiny = Tiny(tmp_path_factory.mktemp("plain") / "tiny")
    tiny.config["top_k"] = [1, 3, 5]
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    plain = evaluated(tiny.write().pipeline())
    assert ceilings(plain, "all") == {}
    assert "Candidate ceiling" not in render(plain)
    assert not any("ceiling" in line for line in shown(plain))
