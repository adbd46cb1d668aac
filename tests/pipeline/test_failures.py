"""A retriever that failed on queries: neither zeros, nor silence."""

from __future__ import annotations

import re
from dataclasses import replace

from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.html import render
from rag_assets.retrieval.runs_stage import run_key
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import QUERIES, Tiny, materialize


def failing(one: Tiny, *query_ids: str) -> Pipeline:
    """The experiment, after bm25 failed on some queries."""
    pipeline = one.pipeline()
    materialize(pipeline)
    pipeline = one.pipeline()
    key = run_key(pipeline.experiment, "bm25", 1)
    run = pipeline.artifact(key)
    manifest = replace(run.manifest, failures=dict.fromkeys(query_ids, "timed out"))
    pipeline.assume(key, replace(run, manifest=manifest))
    return pipeline


def test_a_failed_query_is_no_zero_and_the_evaluation_is_not_complete(one: Tiny) -> None:
    assert evaluated(one.pipeline()).evaluation.complete
    result = evaluated(failing(one, "q1", "q2"))
    assert not result.evaluation.complete
    metrics = {row["query_id"]: row for row in result.query_metrics(1)["bm25"].to_pylist()}
    assert [q for q, row in metrics.items() if row["failed"]] == ["q1", "q2"]
    assert [q for q, row in metrics.items() if row["mrr"] is None] == ["q1", "q2"]
    board = {row["retriever"]: row for row in result.leaderboard.to_pylist()}
    kept = [row["mrr"] for query_id, row in metrics.items() if query_id not in {"q1", "q2"}]
    row = board["bm25"]
    assert row["mrr"] == sum(kept) / 4
    assert (row["n_attempted"], row["n_failed"], row["n_queries"]) == (6, 2, 4)
    assert board["bm25-whole"]["n_queries"] == 6
    lines = shown(result)
    assert lines[0] == "tiny: top_k 1, mean over 6 queries"
    assert any(line.split()[1:3] == ["bm25", "!"] for line in lines)
    assert "bm25 !: failed on 2 of 6 queries, which are in no mean" in lines
    assert "a retriever failed on queries" in render(result)


def test_failures_are_part_of_what_metrics_are_made_from(one: Tiny) -> None:
    cell = metrics_key("bm25", 1)
    calm, failed = failing(one).recipe(cell), failing(one, "q1").recipe(cell)
    assert calm != failed
    assert calm == one.pipeline().recipe(cell)


def test_a_retriever_that_failed_on_every_query_has_no_value(one: Tiny) -> None:
    result = evaluated(failing(one, *(q["query_id"] for q in QUERIES)))
    lines = shown(result)
    (line,) = (line for line in lines if "bm25 !" in line and "failed" not in line)
    assert line.split()[:4] == ["2", "bm25", "!", "-"]
    page = re.sub(r"<[^>]*>", "", render(result))
    assert "; it has the highest mrr@1, 1.0000. It was compared with no other." in page
    assert [row["mrr"] is None for row in result.leaderboard.to_pylist()] == [False, True]
