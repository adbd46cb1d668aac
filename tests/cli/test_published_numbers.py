"""BM25 on published data sets, through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import Invoke

pytestmark = pytest.mark.real_data

SharedData = Callable[[str], Path]


def rows_by_top_k(result: Result) -> dict[int, dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return {row["top_k"]: row for row in json.loads(result.stdout)}


def write_yaml(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "experiment.yaml").write_text(text, encoding="utf-8")
    return folder


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
def test_squad(invoke: Invoke, shared_data: SharedData, tmp_path: Path) -> None:
    options = ("--retriever", "bm25", "--top-k", 100, "--format", "json")
    where = ("--store", tmp_path / "store")
    rows = rows_by_top_k(invoke("evaluate", shared_data("squad_dev_v2"), *options, *where))
    assert (rows[100]["n_queries"], rows[100]["n_unanswerable"]) == (5928, 5945)
    assert rows[100]["mrr"] >= 0.86
    assert rows[100]["recall"] >= 0.99
