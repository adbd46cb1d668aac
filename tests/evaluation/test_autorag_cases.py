"""AutoRAG's own test cases from its files to our numbers: reader, evidence groups, metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.evaluation.metrics_stage import metrics_key, summary_key
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.settings import StoreSettings
from tests.tiny_experiment import materialize

GROUPS = pa.list_(pa.list_(pa.string()))
TOP_K = 10
"""Deeper than every list of the cases."""

GROUPED = ("f1", "recall", "mrr", "map", "ndcg")

pytestmark = pytest.mark.real_data


@pytest.fixture
def cases(shared_data: Callable[[str], Path]) -> dict[str, Any]:
    """Query id -> one of the eight cases."""
    path = shared_data("autorag_sample") / "metric_cases.json"
    found = json.loads(path.read_text(encoding="utf-8"))["cases"]
    assert len(found) == 8
    return {f"q{number}": case for number, case in enumerate(found)}


@pytest.fixture
def folder(cases: dict[str, Any], tmp_path: Path) -> Path:
    """The cases as AutoRAG would store them, and what they retrieved as a run file."""
    truth = [case["retrieval_gt"] for case in cases.values()]
    listed = [case["retrieved_ids"] for case in cases.values()]
    wanted = {item for groups in truth for group in groups for item in group if item}
    ids = sorted(wanted | {item for items in listed for item in items})
    pq.write_table(pa.table({"doc_id": ids, "contents": ids}), tmp_path / "corpus.parquet")
    queries = {"qid": [*cases], "query": [*cases], "retrieval_gt": pa.array(truth, GROUPS)}
    pq.write_table(pa.table(queries), tmp_path / "qa.parquet")
    rows = [{"qid": q, "retrieved_ids": items} for q, items in zip(cases, listed, strict=True)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "run.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def close(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-4)


def test_under_autorags_names(cases: dict[str, Any], folder: Path) -> None:
    files = ["--run", folder / "run.jsonl", "--qrels", folder / "qa.parquet"]
    words = ["score", *files, "--dialect", "autorag", "--per-query", "--format", "json"]
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exit_code == 0, done.output
    found = {row.pop("query_id"): row for row in json.loads(done.stdout)}
    answerable = {name: case for name, case in cases.items() if case["f1"] is not None}
    for name, case in answerable.items():
        for measure in ("f1", "recall", "precision", "ndcg", "mrr", "map"):
            assert found[name][f"retrieval_{measure}"] == close(case[measure]), (name, measure)
    for name in cases.keys() - answerable.keys():
        assert not any(found.get(name, {}).values())


def test_as_an_experiment(cases: dict[str, Any], folder: Path) -> None:
    """All but nDCG, whose ideal list counts every alternative of a group; ours has one a group."""
    experiment = {
        "name": "cases",
        "retrievers": {"given": {"type": "run_file", "path": "run.jsonl"}},
        "top_k": [TOP_K],
        "metrics": [*(f"group_{m}" for m in GROUPED), "full_recall"],
        "primary": f"group_recall@{TOP_K}",
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(experiment), encoding="utf-8")
    pipeline = Pipeline(load_experiment(folder), StoreSettings.resolve(folder / "store"))
    materialize(pipeline)
    table = pipeline.artifact(metrics_key("given", TOP_K)).table()
    found = {row["query_id"]: row for row in table.to_pylist()}
    assert found.keys() == cases.keys()
    for name, case in cases.items():
        row = found[name]
        for measure in ("f1", "recall", "mrr", "map"):
            assert row[f"group_{measure}"] == close(case[measure]), (name, measure)
        n_groups = 0 if case["f1"] is None else len(case["retrieval_gt"])
        assert row["n_relevant"] == n_groups
        if n_groups:
            assert row["full_recall"] == (case["recall"] == 1)
            assert 0 <= row["group_ndcg"] <= 1
    summary = pipeline.artifact(summary_key("given")).table().to_pylist()[0]
    assert (summary["n_attempted"], summary["n_unlabelled"]) == (8, 2)


@pytest.mark.parametrize("name", ["bm25_top10", "vectordb_top10"])
def test_duplicates_in_published_runs(name: str, shared_data: Callable[[str], Path]) -> None:
    """Refused by our metrics with line and document; counted as AutoRAG counts, and told."""
    folder = shared_data("autorag_sample")
    files = ["--run", f"{folder}/runs/{name}.jsonl", "--qrels", f"{folder}/qa_data_sample.parquet"]
    refused = CliRunner().invoke(main, ["score", *files])
    assert refused.exit_code == 1
    assert f"{name}.jsonl:1: `retrieved_ids`: '" in refused.stderr
    assert "' occurs twice for query '1oy5tc', first on line" in refused.stderr
    taken = CliRunner().invoke(main, ["score", *files, "--dialect", "autorag"])
    assert taken.exit_code == 0
    assert taken.stderr.count("occurs 5 times") == 10
    assert "retrieval_precision  0.1000" in taken.stdout
