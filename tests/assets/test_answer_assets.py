"""Answers in Dagster: exact edges, fresh after an evaluation, one partition from the UI."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from rag_assets.answers.metrics_stage import answer_metrics_key
from rag_assets.answers.stage import answers_key
from rag_assets.assets.build import build_assets
from rag_assets.assets.names import asset_key
from tests.answers.answering import with_answers, write_predictions
from tests.assets.exact_edges import check_edges
from tests.dagster_state import (
    evaluate_now,
    latest,
    not_fresh,
    run_as_ui,
)
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
def evaluated(tmp_path_factory: pytest.TempPathFactory, cutoffs: tuple[int, ...]) -> Tiny:
    """The tiny experiment with every kind of answerer, evaluated once; tests get copies."""
    tiny = Tiny(tmp_path_factory.mktemp("answer_assets") / "master")
    tiny.config["top_k"] = [*cutoffs]
    with_answers(tiny.write(), split={"dev": 0.5, "seed": 0})
    tiny.config["generators"]["spans"] = {"type": "extractive"}
    tiny.config["answers"]["copy"] = {"generator": "spans", "retriever": "bm25", "top_k": [3]}
    tiny.write_config()
    evaluate_now(tiny)
    return tiny


@pytest.fixture
def answering(evaluated: Tiny, tmp_path: Path) -> Tiny:
    """The experiment as it is after one evaluation."""
    return evaluated.copy_to(tmp_path / "tiny")


def test_every_edge_is_exact_in_both_directions(answering: Tiny) -> None:
    assert check_edges(answering, OF_ANSWERS) > 50


def test_everything_is_fresh_after_an_evaluation_and_nothing_is_done_again(
    answering: Tiny,
) -> None:
    assert not_fresh(answering) == {}
    again = evaluate_now(answering)
    assert again.computed == 0
    assert again.evaluation.dagster_runs == ()


def test_other_predictions_make_stale_what_reads_them(answering: Tiny) -> None:
    write_predictions(answering, {"q1": "ten crowns"})
    done = evaluate_now(answering)
    # One object of answers for all answerers of the file, and one of metrics for each context.
    assert done.computed > 0
    assert not_fresh(answering) == {}
    event = latest(answering, answers_key("gold@-"))
    assert event.metadata["reused"].value in {True, False}


def test_one_partition_as_the_ui_materializes_it(answering: Tiny) -> None:
    answering.lose("answer_metrics", "read@3")
    assert run_as_ui(answering, ["answer_metrics"], partition="read@3").success
    event = latest(answering, answer_metrics_key("read@3"))
    assert event.metadata["reused"].value is False
    assert event.metadata["answer_em"].value == pytest.approx(0.5)  # of the four of test
    assert run_as_ui(answering, ["answers"], partition="read@3").success
    table = latest(answering, answers_key("read@3")).metadata["beside_gold"]
    assert isinstance(table, dg.TableMetadataValue)
    first = table.records[0].data
    assert first["gold"] == "10 crowns"
    assert first["answer"] == "10 crowns"
    assert not_fresh(answering) == {}


def test_columns_of_metrics_are_those_of_answers(answering: Tiny) -> None:
    assets = build_assets(answering.pipeline().experiment, answering.pipeline)
    by_name = {asset.key.path[-1]: asset for asset in assets}
    metadata = by_name["answer_metrics"].metadata_by_key[asset_key("tiny", "answer_metrics")]
    columns = [column.name for column in metadata["dagster/column_schema"].schema.columns]
    assert "answer_f1" in columns
    assert "ndcg" not in columns
