from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rag_assets.store.canonical import fingerprint
from tests.beir_folder import FILES, write_beir
from tests.made_tables import word_tokenizer

Invoke = Callable[..., Result]

TWO = """
retrievers:
  long: {type: bm25, chunking: whole, analyzer: english}
  short: {type: bm25, chunking: cut, analyzer: english}
chunking:
  whole: {strategy: none}
  cut: {strategy: fixed, max_characters: 20, overlap: 0}
dataset: {judge: document}
metrics: [hit_rate, ndcg, recall, precision, answer_hit]
top_k: [1, 2]
primary: recall@2
"""
QUERIES = (
    FILES["queries.jsonl"]
    .replace(
        '"text": "life jackets", "metadata": {"tags"',
        '"text": "life jackets", "metadata": {"answer": "the upper deck", "tags"',
    )
    .replace(
        '"opera", "metadata": {"tags": ["safety"]', '"opera", "metadata": {"tags": ["unanswerable"]'
    )
)


@pytest.fixture(scope="module")
def stored(
    tmp_path_factory: pytest.TempPathFactory, invoke: Invoke
) -> tuple[Path, Path, list[Path]]:
    """An experiment whose tokens are words, its store and the files of it after an evaluation."""
    root = tmp_path_factory.mktemp("budget")
    yaml = f"{TWO}context: {{tokenizer: '{word_tokenizer(root)}'}}\n"
    folder = write_beir(root / "two", {"experiment.yaml": yaml, "queries.jsonl": QUERIES})
    result = invoke("evaluate", folder, "--store", root / "store")
    assert result.exit_code == 0, result.output
    return folder, root / "store", sorted((root / "store").rglob("*"))


def rows(result: Result) -> dict[str, dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return {row["retriever"]: row for row in json.loads(result.stdout)}


def test_at_a_budget(invoke: Invoke, stored: tuple[Path, Path, list[Path]]) -> None:
    folder, store, files = stored
    base = ("leaderboard", folder, "--store", store, "--budget")
    # q2 finds d3 only, which has 9 words.
    found = rows(invoke(*base, 8, "--format", "json"))
    long = found["long"]
    assert (long["depth"], long["n_queries"], long["budget"]) == (2, 3, 8)
    assert (long["n_nothing_fits"], found["short"]["n_nothing_fits"]) == (1, 0)
    assert long["recall"] == pytest.approx(2 / 3)
    assert 0 < long["tokens"] <= 8
    assert long["units"] < found["short"]["units"]
    everything = rows(invoke(*base, 1000, "--format", "json"))
    assert everything["long"]["recall"] == 1
    assert everything["long"]["answer_hit"] == 1
    assert found["long"]["answer_hit"] == 0
    assert sorted(store.rglob("*")) == files, "something was stored"


def test_the_whole_run_within_a_large_budget_is_the_deepest_cell(
    invoke: Invoke, stored: tuple[Path, Path, list[Path]]
) -> None:
    folder, store, _ = stored
    base = ("leaderboard", folder, "--store", store, "--format", "json")
    whole = rows(invoke(*base, "--budget", 1000))
    for name, row in rows(invoke(*base, "--top-k", 2)).items():
        for measure in ("hit_rate", "recall", "ndcg", "answer_hit", "tokens"):
            assert whole[name][measure] == pytest.approx(row[measure]), (name, measure)
        assert whole[name]["precision"] > row["precision"]


def test_the_table_says_what_the_run_could_not(
    invoke: Invoke, stored: tuple[Path, Path, list[Path]]
) -> None:
    folder, store, _ = stored
    base = ("leaderboard", folder, "--store", store)
    shown = invoke(*base, "--budget", 8, "--retriever", "long")
    lines = shown.stdout.splitlines()
    assert lines[0] == "two: at most 8 tokens a query, mean over 3 queries"
    assert lines[1].split()[:2] == ["#", "retriever"]
    told = "long: the first unit of 1 query alone exceeds the budget, so nothing is kept"
    assert told in " ".join(shown.stdout.split())
    large = " ".join(invoke(*base, "--budget", 1000).stdout.split())
    found = rows(invoke(*base, "--budget", 1000, "--format", "json"))
    for name, row in found.items():
        assert row["n_short"] > 0
        assert f"{name}: all 2 stored units of {row['n_short']} quer" in large


def test_forms_for_programs(invoke: Invoke, stored: tuple[Path, Path, list[Path]]) -> None:
    folder, store, _ = stored
    base = ("leaderboard", folder, "--store", store, "--budget", 20, "--format")
    wanted = rows(invoke(*base, "json"))
    table = list(csv.DictReader(io.StringIO(invoke(*base, "csv").stdout)))
    assert [row["retriever"] for row in table] == list(wanted)
    assert [float(row["recall"]) for row in table] == [row["recall"] for row in wanted.values()]
    assert invoke(*base, "markdown").stdout.startswith("| retriever | position | split | budget |")


def test_tokens_and_answerability_are_shown(
    invoke: Invoke, stored: tuple[Path, Path, list[Path]]
) -> None:
    folder, store, _ = stored
    lines = invoke("leaderboard", folder, "--store", store).stdout.splitlines()
    assert "tokens@2" in lines[1].split()
    start = lines.index("unanswerable queries, told by the best score (3 answerable, 1 not)")
    assert lines[start + 1].split() == ["retriever", "auroc", "threshold", "coverage", "rejected"]
    # q4 has no hits at all.
    assert [line.split()[0] for line in lines[start + 2 : start + 4]] == ["long", "short"]
    for line in lines[start + 2 : start + 4]:
        assert [*line.split()[1:2], *line.split()[3:]] == ["1.0000"] * 3


def test_an_evaluation_of_before_tokens_were_counted(
    invoke: Invoke, stored: tuple[Path, Path, list[Path]], tmp_path: Path
) -> None:
    folder, store, _ = stored
    pointer = store / "two" / "current"
    snapshot = store / "two" / "evaluations" / f"{pointer.read_text()}.json"
    old = json.loads(snapshot.read_text(encoding="utf-8"))
    del old["sha256"]
    old["entries"] = [e for e in old["entries"] if e["asset"] != "retriever_contexts"]
    other = tmp_path / "store" / "two"
    (other / "evaluations").mkdir(parents=True)
    (other / "current").write_text(pointer.read_text())
    (other / "evaluations" / snapshot.name).write_text(
        json.dumps({**old, "sha256": fingerprint(old)}), encoding="utf-8"
    )
    (other.parent / "objects").symlink_to(store / "objects")
    result = invoke("leaderboard", folder, "--store", tmp_path / "store", "--budget", 9)
    assert result.exit_code == 1
    assert result.stderr == (
        "error: the last evaluation of two has no retriever_contexts of long; evaluate it again\n"
    )
