from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from rag_assets.pipeline.evaluations import read_current
from tests.beir_folder import HOSTILE_TAG, write_beir

Invoke = Callable[..., Result]

TWO = "retrievers: {a: {type: bm25}, b: {type: bm25, k1: 2}}\ntop_k: [1, 3]\n"


def test_before_any_evaluation(invoke: Invoke, tiny: Path, store: Path) -> None:
    result = invoke("leaderboard", tiny, "--store", store)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: tiny has no evaluation in {store} yet\n"
    assert not store.exists()


def test_shows_what_evaluate_showed(invoke: Invoke, evaluated: tuple[Path, Path]) -> None:
    folder, store = evaluated
    options = (folder, "--store", store, "--top-k", 3, "--format", "json")
    made = invoke("evaluate", *options).stdout
    shown = invoke("leaderboard", *options)
    assert (shown.exit_code, shown.stdout) == (0, made)
    evaluation = read_current(next(store.glob("*/current")).parent)
    for row in json.loads(made):
        assert row["evaluation_id"] == evaluation.evaluation_id
        assert row["started"] == evaluation.started
        assert row["cost_time"] > 0
    header = invoke("leaderboard", *options[:-1], "csv").stdout.splitlines()[0]
    assert header.endswith(",cost_time,evaluation_id,started")
    table = invoke("leaderboard", folder, "--store", store)
    assert "bm25" in table.stdout
    assert "ndcg by top_k" in table.stdout


def test_a_cell_that_was_not_evaluated(invoke: Invoke, tmp_path: Path, store: Path) -> None:
    folder = write_beir(tmp_path / "two", {"experiment.yaml": TWO})
    assert invoke("evaluate", folder, "--store", store, "--retriever", "a").exit_code == 0
    for form in ("table", "json"):
        shown = invoke(
            "leaderboard", folder, "--store", store, "--retriever", "b", "--format", form
        )
        assert (shown.exit_code, shown.stdout) == (1, "")
        assert shown.stderr == "error: the last evaluation of two has none of these cells\n"
    slices = invoke("leaderboard", folder, "--store", store, "--retriever", "b", "--by", "tag")
    assert slices.stderr == "error: the last evaluation of two has no cell of ndcg@3\n"


def test_by_tag(invoke: Invoke, tmp_path: Path, store: Path) -> None:
    folder = write_beir(tmp_path / "two", {"experiment.yaml": TWO})
    assert invoke("evaluate", folder, "--store", store).exit_code == 0
    base = ("leaderboard", folder, "--store", store, "--by", "tag")
    rows = json.loads(invoke(*base, "--format", "json").stdout)
    of = {name: rows[0][name] for name in ("evaluation_id", "started")}
    assert rows == [
        {"tag": tag, "n_queries": n, "retriever": name, "ndcg@3": 1.0, **of}
        for tag, n in ((HOSTILE_TAG, 1), ("safety", 2), ("time", 1))
        for name in ("a", "b")
    ]
    one = json.loads(invoke(*base, "--retriever", "b", "--format", "json").stdout)
    assert one == [row for row in rows if row["retriever"] == "b"]
    table = invoke(*base, "--retriever", "b").stdout.splitlines()
    assert table[0] == "ndcg@3 by query tag"
    assert table[1].split() == ["tag", "queries", "b"]
    assert table[3].split() == ["safety", "2", "1.0000"]


def test_by_tag_without_tags(invoke: Invoke, tmp_path: Path, store: Path) -> None:
    queries = '{"_id": "q1", "text": "ferry"}\n'
    qrels = "query-id\tcorpus-id\tscore\nq1\td1\t1\n"
    files = {"queries.jsonl": queries, "qrels/test.tsv": qrels, "experiment.yaml": TWO}
    folder = write_beir(tmp_path / "two", files)
    shown = invoke("evaluate", folder, "--store", store)
    assert shown.exit_code == 0
    assert "by query tag" not in shown.stdout
    result = invoke("leaderboard", folder, "--store", store, "--by", "tag")
    assert (result.exit_code, result.stderr) == (1, "error: no answerable query of two has a tag\n")
