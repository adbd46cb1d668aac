from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.evaluation.score import mean_metrics, score
from tests.made_tables import document_judgments, run_table

NAMES = ["ndcg@2", "mrr", "precision@1", "judged@2"]


def test_means_of_files_are_those_of_tables(tmp_path: Path) -> None:
    runs = {"a": run_table({"q1": ["x", "y"], "q2": ["z"]}), "b": run_table({"q1": ["y"]})}
    qrels = document_judgments({"q1": {"y": 2, "x": 0}, "q2": {"u": 1}, "q3": {"x": 0}})
    for name, table in runs.items():
        pq.write_table(table, tmp_path / name)
    pq.write_table(qrels, tmp_path / "qrels")
    metrics = [parse_metric(name) for name in NAMES]
    found = mean_metrics({name: tmp_path / name for name in runs}, tmp_path / "qrels", metrics)
    assert found == mean_metrics(runs, qrels, metrics)
    for name, run in runs.items():
        means = score(run, qrels, NAMES).means
        assert {str(metric): value for metric, value in found[name].items()} == means


def test_no_answerable_query() -> None:
    metrics = [parse_metric("mrr")]
    found = mean_metrics({"a": run_table({})}, document_judgments({"q": {"x": 0}}), metrics)
    assert found == {"a": {metrics[0]: None}}
