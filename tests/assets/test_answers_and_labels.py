"""Answers, verdicts, calibration and samples in Dagster: exact edges, fresh after an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from rag_assets.answers.stage import answer_metrics_key
from rag_assets.assets.build import build_assets
from rag_assets.assets.names import asset_key
from rag_assets.judges.base import CORRECTNESS, RELEVANCE
from rag_assets.judges.verdicts_stage import verdicts_key
from rag_assets.labels.experiment_pool import sampled_pool
from rag_assets.labels.logs import LoggedJudgment, append_lines
from rag_assets.labels.sampling.design import Design
from rag_assets.labels.sampling.sample_stage import SAMPLED_ESTIMATES_KEY
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import CONFIG, GOLDS, PREDICTIONS, with_answers, write_predictions
from tests.assets.conftest import lexical
from tests.assets.test_graph import check_edges
from tests.dagster_state import evaluate_now, latest, not_fresh, run_as_ui
from tests.labels.sampling.made_pool import drawn_line
from tests.llm.server import Server, says
from tests.tiny_experiment import Tiny

OF_ANSWERS = (
    "passages",
    "passage_lists",
    "answer_contexts",
    "answers",
    "answer_metrics",
    "answer_summary",
    "answer_comparisons",
    "answer_waterfall",
)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> Tiny:
    """The tiny experiment with every kind of answerer, evaluated once; tests get copies."""
    tiny = Tiny(tmp_path_factory.mktemp("answer_assets") / "master").start_from(computed)
    with_answers(tiny.write(), split={"dev": 0.5, "seed": 0})
    tiny.config["generators"]["spans"] = {"type": "extractive"}
    tiny.config["answers"]["copy"] = {"generator": "spans", "retriever": "bm25", "top_k": [3]}
    tiny.write_config()
    evaluate_now(tiny)
    return tiny


@pytest.fixture
def answering(answered: Tiny, tmp_path: Path) -> Tiny:
    """The experiment as it is after one evaluation."""
    return answered.copy_to(tmp_path / "tiny")


def test_every_edge_is_exact_all_is_fresh_and_nothing_is_done_again(answering: Tiny) -> None:
    assert check_edges(answering, OF_ANSWERS) > 50
    assert not_fresh(answering) == {}
    again = evaluate_now(answering)
    assert again.computed == 0
    assert again.evaluation.dagster_runs == ()
    assets = build_assets(answering.pipeline().experiment, answering.settings)
    by_name = {asset.key.path[-1]: asset for asset in assets}
    metadata = by_name["answer_metrics"].metadata_by_key[asset_key("tiny", "answer_metrics")]
    columns = [column.name for column in metadata["dagster/column_schema"].schema.columns]
    assert "answer_f1" in columns
    assert "ndcg" not in columns


def test_one_partition_from_the_ui_and_other_predictions_leave_nothing_stale(
    answering: Tiny,
) -> None:
    answering.lose("answer_metrics", "read@3")
    assert run_as_ui(answering, ["answer_metrics"], partition="read@3").success
    event = latest(answering, answer_metrics_key("read@3"))
    assert event.metadata["reused"].value is False
    assert event.metadata["answer_em"].value == pytest.approx(0.5)  # of the four of test
    assert not_fresh(answering) == {}
    write_predictions(answering, {"q1": "ten crowns"})
    assert evaluate_now(answering).computed > 0
    assert not_fresh(answering) == {}


OF_JUDGES = ("passages", "passage_lists", "relevance_verdicts", "answer_verdicts")


def reply(text: str) -> str:
    return "Some reason.\n##final score: 1"


@pytest.fixture
def judging(tmp_path: Path, server: Server) -> Tiny:
    """The tiny experiment with a judge that asks a server, and one that counts words."""
    model = {"base_url": server.base_url, "model": "small", "api_key_env": None, "retries": 0}
    judges = {"strict": {"type": "llm", "depth": 2}, "floor": {"type": "words"}}
    answers = {name: CONFIG["answers"][name] for name in ("official", "read", "gold", "none")}
    return with_answers(lexical(tmp_path / "tiny"), llm=model, judges=judges, answers=answers)


def test_verdicts_have_exact_edges_show_what_is_missing_are_fresh_and_nobody_is_asked_again(
    judging: Tiny, server: Server
) -> None:
    assert check_edges(judging, OF_JUDGES) > 20
    server.on("dog", says("three"))
    evaluate_now(judging)
    assert not_fresh(judging) == {}
    event = latest(judging, verdicts_key(RELEVANCE, "strict"))
    table = judging.pipeline().artifact(verdicts_key(RELEVANCE, "strict")).table()
    missing = table["grade"].null_count
    assert event.metadata["n_missing"].value == event.metadata["n_unparsed"].value == missing > 0
    assert event.metadata["n_judged"].value == table.num_rows - missing
    assert "which is not 0" in str(event.metadata["notes"].value)
    made = event.metadata["made_from"].value
    assert isinstance(made, dict)
    assert made["config"]["llm"]["model"] == "small"
    preview = event.metadata["preview"]
    assert isinstance(preview, dg.TableMetadataValue)
    assert {column.name for column in preview.schema.columns} >= {"grade", "problem", "reply"}
    asked = len(server.received)
    assert (evaluate_now(judging).computed, len(server.received)) == (0, asked)
    judging.lose("answer_verdicts", "floor")
    assert run_as_ui(judging, ["answer_verdicts"], partition="floor").success
    assert latest(judging, verdicts_key(CORRECTNESS, "floor")).metadata["reused"].value is False
    assert len(server.received) == asked
    assert not_fresh(judging) == {}


CALIBRATED = ("calibrated_means", "calibrated_differences", "calibrated_rankings")


@pytest.fixture(scope="module")
def all_labelled(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Two answerers, a judge of everything, and labels of all answers and of one passage."""
    tiny = lexical(tmp_path_factory.mktemp("labelled") / "master")
    with_answers(
        tiny,
        answers={"official": {"generator": "predicted"}, "none": {"generator": "predicted"}},
        judges={"floor": {"type": "words", "depth": 3}},
    )
    tiny.write_rows(
        "answer_labels.jsonl",
        [
            {"query_id": one, "answer": answer, "correct": answer == "Foam!", "probability": 1.0}
            for one, answer in PREDICTIONS.items()
        ],
    )
    line = {"query_id": "q1", "document_id": "fares.md", "start": 0, "end": 9, "grade": 0}
    tiny.write_rows("passage_labels.jsonl", [{**line, "status": "judged", "probability": 0.5}])
    evaluate_now(tiny)
    return tiny


@pytest.fixture
def labelled(all_labelled: Tiny, tmp_path: Path) -> Tiny:
    """The experiment as it is after one evaluation."""
    return all_labelled.copy_to(tmp_path / "tiny")


def test_calibrated_means(labelled: Tiny) -> None:
    assert check_edges(labelled, CALIBRATED) > 5
    assert not_fresh(labelled) == {}
    assert evaluate_now(labelled).computed == 0
    shown = latest(labelled, ArtifactKey.of("calibrated_means", judge="floor")).metadata
    assert shown["labels"].value == len(GOLDS)  # q5 failed, and is wrong without a label
    assert shown["official@-: judged_correct"].value == round(1 / 6, 6)
    ranked = latest(labelled, ArtifactKey.of("calibrated_rankings", judge="floor")).metadata
    assert ranked["top_k"].value == 3
    # One label more computes what reads it alone.
    rows = [{"query_id": "q1", "answer": "10 crowns", "correct": True, "probability": 1.0}]
    labelled.write_rows("answer_labels.jsonl", rows)
    read_by = {"calibrated_means/floor", "calibrated_differences/floor"}
    assert labelled.run() == {"answer_labels", *read_by}


def test_a_judge_leaves_out_the_queries_on_which_a_retriever_failed(labelled: Tiny) -> None:
    lines: list[dict[str, Any]] = [{"query_id": f"q{n}", "error": "timeout"} for n in range(2, 8)]
    hits = {"query_id": "q1", "hits": [{"text": "A dog needs a ticket of 10 crowns."}]}
    labelled.write_rows("run.jsonl", [hits, *lines])
    options = {"type": "run_file", "path": "run.jsonl", "chunking": "own"}
    labelled.config["retrievers"]["imported"] = options
    labelled.write_config()
    labelled.run()
    rows = labelled.rows(ArtifactKey.of("calibrated_rankings", judge="floor"))
    imported = [row for row in rows if row["name"] == "imported"]
    assert {row["metric"] for row in imported} >= {"context_precision@3"}
    assert {(row["n"], row["n_missing"]) for row in imported} == {(7, 6)}
    (row,) = [row for row in imported if row["metric"] == "context_precision@3"]
    assert row["judge"] == 1.0


def test_two_judges_stand_in_one_warehouse(labelled: Tiny) -> None:
    labelled.config["judges"]["strict"] = {"type": "words", "right": 0.9, "judges": ["correctness"]}
    labelled.write_config()
    labelled.run()
    labelled.snapshot()
    with duckdb.connect(str(rebuild(labelled.settings)), read_only=True) as connection:
        for view in ("calibrated_means", "calibrated_differences"):
            rows = connection.sql(f"SELECT DISTINCT judge, typeof(judge_1) FROM {view} ORDER BY 1")
            assert rows.fetchall() == [("floor", "DOUBLE"), ("strict", "DOUBLE")]
        comments = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ?"
        told = dict(connection.execute(comments, ["calibrated_means"]).fetchall())
        assert (told["judge"], told["judge_1"]) == (None, "mean of the verdicts, as they are")


SAMPLED = ("sampled_passages", "sampled_labels", "sampled_estimates")


def test_estimates_of_a_sample(few: Tiny) -> None:
    sampled = sampled_pool(few.pipeline(), 3)
    append_lines(sampled.log, drawn(sampled.design, 0, 9))
    assert check_edges(few, SAMPLED) > 5
    evaluate_now(few)
    assert not_fresh(few) == {}
    assert evaluate_now(few).computed == 0
    assert latest(few, SAMPLED_ESTIMATES_KEY).metadata["labels"].value != 0
    append_lines(sampled.log, drawn(sampled.design, 9, 12))
    assert few.run() == {"sampled_labels", "sampled_estimates"}


def drawn(design: Design, first: int, end: int) -> list[LoggedJudgment]:
    """Return judgments of some items, in the order in which they are asked."""
    items = (design.items[number] for number in design.order()[first:end])
    return [drawn_line(item, 1) for item in items]
