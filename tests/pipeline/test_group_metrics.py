"""Metrics of evidence groups in an experiment: asked for by name, like any other."""

from __future__ import annotations

from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY, metrics_key
from tests.tiny_experiment import Tiny


def test_an_experiment_asks_for_them(fresh: Tiny) -> None:
    fresh.config["metrics"] = ["recall", "group_recall", "full_recall", "group_ndcg@5"]
    fresh.write()
    retriever = next(iter(fresh.config["retrievers"]))
    fresh.run()
    pipeline = fresh.pipeline()
    board = pipeline.artifact(LEADERBOARD_KEY).table()
    assert {"recall", "group_recall", "full_recall", "group_ndcg"} <= set(board.column_names)
    for row in board.to_pylist():
        assert (row["group_ndcg"] is None) == (row["top_k"] != 5)
        if row["group_recall"] is not None:
            assert row["group_recall"] == row["recall"] >= row["full_recall"]
    top_k = max(fresh.config["top_k"])
    cell = pipeline.artifact(metrics_key(retriever, top_k)).table()
    values = cell["full_recall"].to_pylist()
    assert set(values) <= {0.0, 1.0, None}
    assert 1.0 in values
