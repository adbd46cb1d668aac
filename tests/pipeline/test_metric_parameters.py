"""Metrics with parameters, from the YAML to the leaderboard, its views and the report."""

from __future__ import annotations

from rich.console import Console

from rag_assets.experiment import load_experiment
from rag_assets.pipeline.selection import Selection
from rag_assets.report.html import render
from rag_assets.report.leaderboard import leaderboard_rows, leaderboard_sheets
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import sheets_view
from tests.tiny_experiment import Tiny

TOP_K = (1, 3, 5)

COLUMNS = [
    "ndcg",
    "ndcg_exp",
    "precision",
    "precision(rel=2)",
    "bpref",
    "rbp(p=0.9)",
    "err(gmax=4)",
]


def test_parameters_reach_every_face(fresh: Tiny) -> None:
    fresh.config["retrievers"] = {"bm25": fresh.config["retrievers"]["bm25"]}
    fresh.config["metrics"] = ["ERR", "P", "P(rel=2)", "RBP(p=0.9)", "nDCG", "Bpref", "ndcg_exp"]
    fresh.config["primary"] = "RBP(p=0.9)@3"
    fresh.write_config()
    fresh.run()
    fresh.snapshot()
    experiment = load_experiment(fresh.folder)
    result = EvaluationResult.current(fresh.artifacts)
    assert experiment.primary == result.primary
    assert str(result.primary) == "rbp(p=0.9)@3"
    rows = leaderboard_rows(result.leaderboard, Selection.of(experiment), "all")
    assert [row["top_k"] for row in rows] == [1, 3, 5]
    assert [name for name in rows[0] if name in COLUMNS] == COLUMNS
    cell = result.query_metrics(3)["bm25"]
    assert cell.column_names[-len(COLUMNS) :] == COLUMNS
    assert rows[1]["rbp(p=0.9)"] == sum(cell["rbp(p=0.9)"].to_pylist()) / 6
    assert rows[1]["precision(rel=2)"] != rows[1]["precision"]
    assert set(result.slices()[0].means) == {"bm25"}
    console = Console(width=160)
    with console.capture() as shown:
        console.print(sheets_view(leaderboard_sheets(result, rows)))
    assert "rbp(p=0.9)*" in shown.get()
    assert "rbp(p=0.9) by top_k" in shown.get()
    assert "err(gmax=4)" in render(result)
