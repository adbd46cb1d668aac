"""BM25 on published data sets, through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

pytestmark = pytest.mark.real_data

Invoke = Callable[..., Result]
SharedData = Callable[[str], Path]


def rows_by_top_k(result: Result) -> dict[int, dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return {row["top_k"]: row for row in json.loads(result.stdout)}


def write_yaml(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "experiment.yaml").write_text(text, encoding="utf-8")
    return folder


def test_cranfield(invoke: Invoke, shared_data: SharedData, tmp_path: Path) -> None:
    yaml = (
        f"dataset: {{path: '{shared_data('cranfield')}'}}\n"
        "retrievers: {bm25: {type: bm25, analyzer: english}}\ntop_k: [10, 100]\n"
    )
    folder = write_yaml(tmp_path / "cranfield", yaml)
    result = invoke("evaluate", folder, "--format", "json", "--store", tmp_path / "store")
    rows = rows_by_top_k(result)
    assert rows[10]["ndcg"] >= 0.365
    assert rows[10]["precision"] >= 0.232
    assert rows[100]["map"] >= 0.295


def test_cranfield_by_default(invoke: Invoke, shared_data: SharedData, tmp_path: Path) -> None:
    options = ("--retriever", "bm25", "--format", "json", "--store", tmp_path / "store")
    rows = rows_by_top_k(invoke("evaluate", shared_data("cranfield"), *options))
    assert list(rows) == [1, 3, 5, 10, 100]
    assert rows[10]["ndcg"] >= 0.365
    assert rows[10]["precision"] >= 0.232
    assert rows[100]["map"] >= 0.295


def test_seed_doc_qa(invoke: Invoke, shared_data: SharedData, tmp_path: Path) -> None:
    file = shared_data("seed_doc_qa") / "doc_qa_test.json"
    yaml = (
        f"dataset: {{path: '{file}'}}\ntop_k: [1, 2, 3, 4, 5]\n"
        "retrievers: {bm25: {type: bm25, analyzer: cjk, k1: 1.2, b: 0.75}}\n"
    )
    folder = write_yaml(tmp_path / "doc-qa", yaml)
    result = invoke("evaluate", folder, "--format", "json", "--store", tmp_path / "store")
    rows = rows_by_top_k(result)
    assert rows[1]["n_queries"] == 321
    assert rows[1]["hit_rate"] >= 0.83
    assert rows[5]["hit_rate"] >= 0.95
    assert rows[5]["mrr"] >= 0.88
    for name in ("hit_rate", "mrr", "recall"):
        values = [rows[k][name] for k in range(1, 6)]
        assert values == sorted(values), f"{name} never falls as k grows"


@pytest.mark.slow
def test_one_file_without_any_configuration(
    invoke: Invoke, shared_data: SharedData, tmp_path: Path
) -> None:
    """The values are what the same command printed with all default retrievers."""
    file = shared_data("seed_doc_qa") / "pg_eval_dataset.json"
    options = ("--retriever", "bm25", "--format", "json", "--store", tmp_path / "store")
    rows = rows_by_top_k(invoke("evaluate", file, *options))
    assert list(rows) == [1, 3, 5, 10, 100]
    assert (rows[10]["n_queries"], rows[10]["n_unreachable"]) == (114, 0)
    assert rows[10]["ndcg"] == pytest.approx(0.7787, abs=5e-5)


@pytest.mark.slow
def test_squad(invoke: Invoke, shared_data: SharedData, tmp_path: Path) -> None:
    options = ("--retriever", "bm25", "--top-k", 100, "--format", "json")
    where = ("--store", tmp_path / "store")
    rows = rows_by_top_k(invoke("evaluate", shared_data("squad_dev_v2"), *options, *where))
    assert (rows[100]["n_queries"], rows[100]["n_unanswerable"]) == (5928, 5945)
    assert rows[100]["mrr"] >= 0.86
    assert rows[100]["recall"] >= 0.99
