"""Calibrated verdicts in Dagster: exact edges, fresh after an evaluation, means as metadata."""

from __future__ import annotations

import duckdb

from rag_assets.pipeline.warehouse import rebuild
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import GOLDS, PREDICTIONS, with_answers
from tests.assets.exact_edges import check_edges
from tests.dagster_state import evaluate_now, latest, not_fresh
from tests.tiny_experiment import Tiny

CALIBRATED = ("calibrated_means", "calibrated_differences", "calibrated_rankings")


def labelled(tiny: Tiny) -> Tiny:
    """Two answerers, a judge of everything, and labels of all answers and of one passage."""
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
    return tiny


def test_edges_freshness_and_metadata(fresh: Tiny) -> None:
    tiny = labelled(fresh)
    assert check_edges(tiny, CALIBRATED) > 5
    evaluate_now(tiny)
    assert not_fresh(tiny) == {}
    assert evaluate_now(tiny).computed == 0
    shown = latest(tiny, ArtifactKey.of("calibrated_means", judge="floor")).metadata
    assert shown["labels"].value == len(GOLDS)  # q5 failed, and is wrong without a label
    assert shown["official@-: judged_correct"].value == round(1 / 6, 6)
    ranked = latest(tiny, ArtifactKey.of("calibrated_rankings", judge="floor")).metadata
    assert ranked["top_k"].value == 3


def test_one_label_more_computes_what_reads_it_alone(fresh: Tiny) -> None:
    tiny = labelled(fresh)
    tiny.run()
    rows = [{"query_id": "q1", "answer": "10 crowns", "correct": True, "probability": 1.0}]
    tiny.write_rows("answer_labels.jsonl", rows)
    assert tiny.run() == {
        "answer_labels",
        "calibrated_means/floor",
        "calibrated_differences/floor",
    }


def test_two_judges_stand_in_one_warehouse(fresh: Tiny) -> None:
    tiny = labelled(fresh)
    tiny.config["judges"]["strict"] = {"type": "words", "right": 0.9, "judges": ["correctness"]}
    tiny.write_config()
    tiny.run()
    tiny.snapshot()
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:
        for view in ("calibrated_means", "calibrated_differences"):
            rows = connection.sql(f"SELECT DISTINCT judge, typeof(judge_1) FROM {view} ORDER BY 1")
            assert rows.fetchall() == [("floor", "DOUBLE"), ("strict", "DOUBLE")]
        comments = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ?"
        told = dict(connection.execute(comments, ["calibrated_means"]).fetchall())
        assert (told["judge"], told["judge_1"]) == (None, "mean of the verdicts, as they are")
