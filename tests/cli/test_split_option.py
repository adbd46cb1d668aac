"""``leaderboard --split``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.tiny_experiment import QUERIES, Tiny

Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("split") / "tiny")
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.config["top_k"] = [1, 3, 5]
    tiny.config["split"] = {"dev": 0.5, "seed": 0}
    tiny.write()
    result = invoke("evaluate", tiny.folder, "--store", tiny.root / "store")
    assert result.exit_code == 0, result.output
    return tiny


def board(invoke: Invoke, tiny: Tiny, *options: object) -> Result:
    return invoke("leaderboard", tiny.folder, "--store", tiny.root / "store", *options)


def test_test_unless_dev_is_asked_for(split: Tiny, invoke: Invoke) -> None:
    for options, expected in (
        ((), "test"),
        (("--split", "dev"), "dev"),
        (("--split", "test"), "test"),
    ):
        rows = json.loads(board(invoke, split, "--format", "json", *options).stdout)
        assert {row["split"] for row in rows} == {expected}
        assert [row["top_k"] for row in rows] == [1, 3, 5]


def test_slices_are_within_the_split(split: Tiny, invoke: Invoke) -> None:
    tags: dict[str, set[str]] = {}
    for name in ("dev", "test"):
        result = board(invoke, split, "--by", "tag", "--split", name, "--format", "json")
        rows = json.loads(result.stdout)
        assert {row["split"] for row in rows} == {name}
        tags[name] = {row["tag"] for row in rows}
    default = json.loads(board(invoke, split, "--by", "tag", "--format", "json").stdout)
    assert {row["tag"] for row in default} == tags["test"] != tags["dev"]


def test_without_a_split(invoke: Invoke, evaluated: tuple[Path, Path]) -> None:
    folder, store = evaluated
    for more in ((), ("--by", "tag")):
        result = invoke("leaderboard", folder, "--store", store, "--split", "dev", *more)
        assert (result.exit_code, result.stdout) == (2, "")
        problem = "the queries of tiny are not split; add `split` to its experiment.yaml"
        assert result.stderr == f"error: {problem}\n"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Three queries a split, and a fusion whose weights were chosen on dev."""
    tiny = Tiny(tmp_path_factory.mktemp("tuned") / "tiny").write()
    folds = [{**q, "fold": "dev" if q["query_id"] < "q4" else "test"} for q in QUERIES]
    tiny.write_rows("queries.jsonl", folds)
    base = {name: tiny.config["retrievers"][name] for name in ("bm25", "bm25-whole")}
    fusion = {"type": "rrf", "inputs": [*base], "weights": "tuned"}
    tiny.config |= {"split": {"field": "fold"}, "retrievers": {**base, "hybrid": fusion}}
    tiny.config["top_k"] = [5]
    tiny.write_config()
    tiny.run()
    tiny.snapshot()
    return tiny


TUNED_NOTE = "note: parameters of hybrid were chosen on dev, which flatters them there"


def test_a_budget_is_of_the_split_and_does_not_rank_what_was_tuned_on_it(
    tuned: Tiny, invoke: Invoke
) -> None:
    words = ("--budget", 60, "--format", "json")
    dev = {
        row["retriever"]: row
        for row in json.loads(board(invoke, tuned, *words, "--split", "dev").stdout)
    }
    assert list(dev)[-1] == "hybrid"
    assert [row["position"] is None for row in dev.values()] == [False, False, True]
    assert {(row["split"], row["n_queries"]) for row in dev.values()} == {("dev", 3)}
    test = json.loads(board(invoke, tuned, *words).stdout)
    assert {row["split"] for row in test} == {"test"}
    assert None not in [row["position"] for row in test]
    shown = board(invoke, tuned, "--budget", 60, "--split", "dev").stdout.splitlines()
    assert shown[0] == "tiny: dev, at most 60 tokens a query, mean over 3 queries"


@pytest.mark.parametrize(
    "words", [("--by", "tag"), ("--budget", 60), ("--ties",)], ids=lambda words: words[0]
)
def test_what_is_shown_of_dev_says_who_was_tuned_on_it(
    words: tuple[object, ...], tuned: Tiny, invoke: Invoke
) -> None:
    for split, told in (("dev", True), ("test", False)):
        result = board(invoke, tuned, *words, "--split", split)
        assert result.exit_code == 0, result.output
        assert (TUNED_NOTE in " ".join(result.stderr.split())) == told
    others = board(invoke, tuned, *words, "--split", "dev", "--retriever", "bm25")
    assert "chosen on dev" not in others.stderr


def test_a_comparison_on_dev_says_it_too(tuned: Tiny, invoke: Invoke) -> None:
    compare = ("compare", tuned.folder, "--store", tuned.root / "store", "--split")
    told = invoke(*compare, "dev", "--format", "csv")
    assert TUNED_NOTE in " ".join(told.stderr.split())
    assert "chosen on dev" not in invoke(*compare, "test", "--format", "csv").stderr


def test_a_run_goes_out_by_split(tuned: Tiny, invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "h.trec"
    words: tuple[object, ...] = ("export-run", tuned.folder, "--retriever", "hybrid", "--out", out)
    words = (*words, "--store", tuned.root / "store")
    assert "note: it holds 3 dev and 3 test queries; " in invoke(*words).stderr
    held = {line.split()[0] for line in out.read_text(encoding="utf-8").splitlines()}
    assert "note:" not in invoke(*words, "--split", "test").stderr
    of_test = {line.split()[0] for line in out.read_text(encoding="utf-8").splitlines()}
    assert of_test == {name for name in held if name >= "q4"}


def test_chosen_weights_stand_in_the_row(tuned: Tiny, invoke: Invoke) -> None:
    rows = json.loads(board(invoke, tuned, "--format", "json").stdout)
    chosen = {row["retriever"]: row.get("chosen_weights") for row in rows}
    assert chosen.pop("hybrid").startswith("bm25 ")
    assert set(chosen.values()) == {None}
    assert "hybrid: weights chosen on dev: bm25 " in board(invoke, tuned).stdout
    page = invoke("report", tuned.folder, "--store", tuned.root / "store")
    assert page.exit_code == 0
