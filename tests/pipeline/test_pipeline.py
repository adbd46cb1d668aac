"""Partitions are brought up to date, once; failures, retries, costs of servers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_names import register, registered
from rag_assets.pipeline.failed_queries import failed_queries, try_again, unanswered
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES
from rag_assets.report.html import render
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import Artifact, ArtifactKey
from tests.llm.server import Server, error, refuses
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import QUERIES, Tiny, materialize, short

TOP_K = (1, 3, 5)


def test_outcomes_come_in_the_order_asked_for(tiny: Tiny) -> None:
    pipeline = tiny.pipeline()
    keys = STAGES["metrics"].keys(pipeline.experiment)[::-1]
    tiny.lose("metrics", "bm25")
    outcomes = pipeline.materialize("metrics", keys)
    assert [outcome.key for outcome in outcomes] == keys
    assert {o.key["retriever"] for o in outcomes if not o.reused} == {"bm25"}
    assert all((outcome.seconds > 0) is not outcome.reused for outcome in outcomes)


def test_a_file_that_is_edited_between_hash_and_reading_is_refused(fresh: Tiny) -> None:
    """Else the old fingerprint would hold the new content for ever."""
    pipeline = fresh.pipeline()
    assert pipeline.source_digests
    for asset in ("documents", "queries"):
        pipeline.materialize(asset, [ArtifactKey.of(asset)])
    file = fresh.folder / "judgments.jsonl"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(DataError, match="the qrels changed while they were read"):
        pipeline.materialize("qrels", [ArtifactKey.of("qrels")])
    assert not list(fresh.objects("qrels").glob("*"))
    (outcome,) = fresh.pipeline().materialize("qrels", [ArtifactKey.of("qrels")])
    assert not outcome.reused


def test_the_order_of_a_selection_is_that_of_the_experiment(fresh: Tiny) -> None:
    chosen = Selection.of(fresh.pipeline().experiment, ["okapi", "bm25"], [5, 1])
    assert chosen == Selection(("bm25", "okapi"), (1, 5))


def test_an_experiment_is_listed_with_its_file(fresh: Tiny) -> None:
    for _ in range(2):
        register(fresh.pipeline().experiment, fresh.settings)
        assert registered(fresh.settings) == {"tiny": str(fresh.folder / "experiment.yaml")}
    for damaged in ("", "{", "[]", '{"tiny": 5, "../x": "y"}'):
        fresh.settings.registry.write_text(damaged)
        assert registered(fresh.settings) == {}
        register(fresh.pipeline().experiment, fresh.settings)
        assert set(registered(fresh.settings)) == {"tiny"}


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
    metrics_of_bm25 = metrics_key("bm25", 1)
    calm, failed = (failing(one, *names).recipe(metrics_of_bm25) for names in ((), ("q1",)))
    assert calm == one.pipeline().recipe(metrics_of_bm25) != failed
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
    assert "bm25 !: failed on 2 of 6 queries, which count in no mean" in lines
    assert "a retriever failed on queries" in render(result)
    # A retriever that failed on every query has no value.
    result = evaluated(failing(one, *(q["query_id"] for q in QUERIES)))
    lines = shown(result)
    (line,) = (line for line in lines if "bm25 !" in line and "failed" not in line)
    assert line.split()[:4] == ["2", "bm25", "!", "-"]
    page = re.sub(r"<[^>]*>", "", render(result))
    assert "bm25-whole, without a comparison" in page
    assert "its mrr@1 is 1.0000" in page
    assert "the next best" not in page
    assert [row["mrr"] is None for row in result.leaderboard.to_pylist()] == [False, True]


HEAD = {
    "dataset": {"format": "markdown"},
    "chunking": {"whole": {"strategy": "none"}},
    "top_k": [1, 3],
    "metrics": ["mrr"],
    "statistics": {"resamples": 100},
    "measurements": {"latency_sample": 0},
}


def reply(text: str) -> str:
    return json.dumps(["a ferry in a storm"])


def tiny(folder: Path, config: dict[str, object]) -> Tiny:
    return Tiny(folder, {"name": "tiny", **HEAD, **config}).write()


@pytest.fixture
def reranked(server: Server, tmp_path: Path) -> Tiny:
    api = {"type": "rerank_api", "input": "bm25", "base_url": server.root, "model": "tiny"}
    retrievers = {"bm25": {"type": "bm25"}, "api": {**api, "retries": 0}}
    return tiny(tmp_path, {"retrievers": retrievers})


@pytest.fixture
def rewritten(server: Server, tmp_path: Path) -> Tiny:
    llm = {"model": "tiny", "base_url": server.base_url, "api_key_env": None, "retries": 0}
    return tiny(
        tmp_path,
        {
            "llm": llm,
            "query_sets": {"more": {"strategy": "multi_query"}},
            "retrievers": {"bm25": {"type": "bm25", "query_set": "more"}},
        },
    )


def cell(one: Tiny, retriever: str, top_k: int = 3) -> Artifact:
    pipeline = one.pipeline()
    return pipeline.artifact(run_key(pipeline.experiment, retriever, top_k))


def failures(one: Tiny, retriever: str, top_k: int = 3) -> set[str]:
    return set(cell(one, retriever, top_k).manifest.failures)


def test_a_reranker_that_was_not_served_is_asked_again(reranked: Tiny, server: Server) -> None:
    server.on("dog", error(400, "too long"))
    reranked.run()
    assert failures(reranked, "api") == {"q1"}
    assert not reranked.snapshot().complete
    old = cell(reranked, "api")
    content = old.file.read_bytes()
    # Without a word it stays as it is: an evaluation that changes nothing asks nobody.
    server.forget_rules()
    asked = len(server.received)
    assert reranked.run() == set()
    pipeline = reranked.pipeline()
    assert {short(key): n for key, n in unanswered(pipeline).items()} == {"reranked_runs/api/1": 1}
    # The first attempt fails again.
    server.on("dog", error(400, "too long"))
    assert try_again(pipeline) == 1
    materialize(pipeline)
    assert failures(reranked, "api") == {"q1"}
    server.forget_rules()
    assert try_again(pipeline) == 1
    computed = materialize(pipeline)
    assert len(server.received) == asked + 2
    assert failures(reranked, "api") == failures(reranked, "api", 1) == set()
    assert {"reranked_runs/api/1", "metrics/api/3"} <= computed
    assert not any("bm25" in name for name in computed if name.startswith("lexical"))
    assert reranked.snapshot().complete
    assert old.file.read_bytes() == content  # old evaluations name it
    pipeline = reranked.pipeline()
    assert try_again(pipeline) == 0
    assert materialize(pipeline) == set()


def test_a_query_set_asks_for_what_was_not_answered(rewritten: Tiny, server: Server) -> None:
    server.on("dog", error(400, "too long"))
    server.on("oil", refuses("I won't."))
    rewritten.run()
    assert failures(rewritten, "bm25") == {"q1", "q6"}
    server.forget_rules()
    asked = len(server.received)
    pipeline = rewritten.pipeline()
    assert list(unanswered(pipeline).values()) == [1]
    try_again(pipeline)
    materialize(pipeline)
    # A refusal is an answer: it is kept, and nobody is asked for another.
    assert len(server.received) == asked + 1
    assert failures(rewritten, "bm25") == {"q6"}
    assert unanswered(rewritten.pipeline()) == {}


@pytest.mark.parametrize("config", ["reranked", "rewritten"])
def test_another_experiment_is_told_too_and_asks_again_when_it_is_said(
    config: str, request: pytest.FixtureRequest, server: Server
) -> None:
    one: Tiny = request.getfixturevalue(config)
    server.on("dog", error(400, "too long"))
    one.run()
    asked = len(server.received)
    other = Tiny(one.root.parent / "other", {**one.config, "name": "other"}).write()
    pipeline = Pipeline(load_experiment(other.folder), one.settings)
    materialize(pipeline)
    assert len(server.received) == asked
    assert failed_queries(pipeline) != {}
    assert try_again(pipeline) == 1  # in vain
    materialize(pipeline)
    server.forget_rules()
    # The first one passes over what the other one was left without, and finds an answer.
    asked = len(server.received)
    again = one.pipeline()
    assert try_again(again) == 1
    materialize(again)
    assert failed_queries(again) == {}
    assert len(server.received) == asked + 1
