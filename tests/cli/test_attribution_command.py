from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.beir_folder import write_beir

Invoke = Callable[..., Result]

YAML = """
retrievers:
  words: {type: bm25, analyzer: standard}
  stems: {type: bm25, analyzer: english}
  both: {type: rrf, inputs: [words, stems]}
top_k: [1, 3]
primary: recall@1
metrics: [recall]
"""

QRELS = "query-id\tcorpus-id\tscore\nq1\td4\t2\nq2\td3\t1\nq3\td2\t1\n"
"""What q1 asks for is in d1, so d4 comes second."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> tuple[Path, Path]:
    """An experiment with a fusion, and its store; tests only read them."""
    root = tmp_path_factory.mktemp("three")
    folder = write_beir(root / "three", {"experiment.yaml": YAML, "qrels/test.tsv": QRELS})
    result = invoke("evaluate", folder, "--store", root / "store")
    assert result.exit_code == 0, result.output
    return folder, root / "store"


def test_one_row_a_retriever(invoke: Invoke, three: tuple[Path, Path]) -> None:
    folder, store = three
    shown = invoke("attribution", folder, "--store", store)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "three: where the evidences are, at top_k 1"
    assert [line.split()[0] for line in lines[3:]] == ["words", "stems", "both"]
    assert max(map(len, lines)) <= 80
    rows = json.loads(invoke("attribution", folder, "--store", store, "--format", "json").stdout)
    board = json.loads(
        invoke("leaderboard", folder, "--store", store, "--top-k", 1, "--format", "json").stdout
    )
    recalls = {row["retriever"]: row["recall"] for row in board}
    assert {row["retriever"]: row["recall"] for row in rows} == recalls
    for row in rows:
        assert (row["top_k"], row["n_queries"], row["n_evidences"]) == (1, 3, 3)
        assert row["found"] + row["cut_at_k"] + row["below_candidates"] == 3
        assert row["found_share"] == pytest.approx(row["found"] / 3)
        assert (row["ceiling"] is not None) == (row["retriever"] == "both")


def test_one_retriever_in_slices(invoke: Invoke, three: tuple[Path, Path]) -> None:
    folder, store = three
    base = ("attribution", folder, "--store", store, "--retriever", "stems", "--by", "tag")
    rows = json.loads(invoke(*base, "--format", "json").stdout)
    assert [(row["tag"], row["retriever"], row["n_evidences"]) for row in rows] == [
        ("<script>alert('tag')</script>", "stems", 1),
        ("safety", "stems", 2),
        ("time", "stems", 1),
    ]
    shown = invoke(*base)
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_the_lost_evidences(invoke: Invoke, three: tuple[Path, Path]) -> None:
    folder, store = three
    base = ("attribution", folder, "--store", store, "--queries")
    text = invoke(*base, "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    summary = json.loads(invoke(*base[:-1], "--format", "json").stdout)
    lost = {row["retriever"]: row["n_evidences"] - row["found"] for row in summary}
    assert {name: sum(row["retriever"] == name for row in rows) for name in lost} == lost
    (row,) = [row for row in rows if row["retriever"] == "both"]
    assert row["query"] == "when does the ferry leave the harbour"
    assert (row["lost_at"], row["rank"]) == ("cut_at_k", row["rank_in_words"])
    assert row["rank_in_words"] == row["rank_in_stems"] == "2"
    shown = invoke(*base, "--retriever", "both")
    assert "both: 1 lost (in 1: words, in 2: stems)" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_queries_and_slices_exclude_each_other(invoke: Invoke, three: tuple[Path, Path]) -> None:
    result = invoke("attribution", three[0], "--queries", "--by", "tag")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: --queries lists evidences one by one; --by does not apply to it\n"
    )


def test_before_any_evaluation_and_after_a_part_of_one(
    invoke: Invoke, tmp_path: Path, store: Path
) -> None:
    folder = write_beir(tmp_path / "part", {"experiment.yaml": YAML})
    options = ("attribution", folder, "--store", store)
    assert invoke(*options).stderr == f"error: part has no evaluation in {store} yet\n"
    assert invoke("evaluate", folder, "--store", store, "--top-k", 1).exit_code == 0
    result = invoke(*options)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the last evaluation of part says of no evidence where")


def test_latency(invoke: Invoke, three: tuple[Path, Path]) -> None:
    folder, store = three
    base = ("leaderboard", folder, "--store", store, "--latency")
    shown = invoke(*base)
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    rows = {row["retriever"]: row for row in json.loads(invoke(*base, "--format", "json").stdout)}
    assert list(rows) == ["words", "stems", "both"]
    for name, row in rows.items():
        assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
        assert (row["n_timed"], row["known_p50_ms"], row["n_embedded"]) == (4, None, None)
        assert (row["index_bytes"] is None) == (name == "both")
    assert rows["both"]["queries_per_second"] < min(
        rows[name]["queries_per_second"] for name in ("words", "stems")
    )
    assert rows["words"]["index_seconds"] > 0


def test_latency_is_of_no_cut_off(invoke: Invoke, three: tuple[Path, Path]) -> None:
    result = invoke("leaderboard", three[0], "--latency", "--top-k", 1)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --top-k does not apply to --latency, ")
