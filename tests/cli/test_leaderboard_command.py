from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rag_assets.pipeline.evaluations import read_current
from rag_assets.store.canonical import fingerprint
from tests.beir_folder import FILES, HOSTILE_TAG, write_beir
from tests.cli.conftest import Invoke, parsed
from tests.made_tables import word_tokenizer
from tests.tiny_experiment import QUERIES, Tiny

TWO = "retrievers: {a: {type: bm25}, b: {type: bm25, k1: 2}}\ntop_k: [1, 3]\n"


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


def test_by_tag_and_a_cell_that_was_not_evaluated(
    invoke: Invoke, tmp_path: Path, store: Path
) -> None:
    folder = write_beir(tmp_path / "two", {"experiment.yaml": TWO})
    where = (folder, "--store", store)
    narrowed = ("--retriever", "a", "--top-k", 1, "--format", "json")
    (row,) = parsed(invoke("evaluate", *where, *narrowed))
    assert (row["retriever"], row["top_k"]) == ("a", 1)
    for form in ("table", "json"):
        shown = invoke("leaderboard", *where, "--retriever", "b", "--format", form)
        assert (shown.exit_code, shown.stdout) == (1, "")
        note, error = shown.stderr.splitlines()
        assert note == "note: not in the last evaluation: b"
        assert error == "error: the last evaluation of two has none of these cells"
    base = ("leaderboard", *where, "--by", "tag")
    slices = invoke(*base, "--retriever", "b")
    assert slices.stderr == "error: the last evaluation of two has no cell of ndcg@3\n"
    assert invoke("evaluate", *where).exit_code == 0
    rows = json.loads(invoke(*base, "--format", "json").stdout)
    of = {name: rows[0][name] for name in ("evaluation_id", "started")}
    assert rows == [
        {"tag": tag, "n_queries": n, "retriever": name, "ndcg@3": 1.0, **of}
        for tag, n in ((HOSTILE_TAG, 1), ("safety", 2), ("time", 1))
        for name in ("a", "b")
    ]
    one = json.loads(invoke(*base, "--retriever", "b", "--format", "json").stdout)
    assert one == [row for row in rows if row["retriever"] == "b"]
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "ferry"}\n', encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    assert "by query tag" not in invoke("evaluate", *where).stdout
    result = invoke(*base)
    assert (result.exit_code, result.stderr) == (1, "error: no answerable query of two has a tag\n")


TUNED_NOTE = "note: parameters of hybrid were chosen on dev, and look too good there"


def board(invoke: Invoke, tiny: Tiny, *options: object) -> Result:
    return invoke("leaderboard", tiny.folder, "--store", tiny.root / "store", *options)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Half of the queries are dev, a fusion is tuned on it; two documents have a language."""
    tiny = Tiny(tmp_path_factory.mktemp("tuned") / "tiny").write()
    folds = [{**q, "fold": "dev" if q["query_id"] < "q4" else "test"} for q in QUERIES]
    tiny.write_rows("queries.jsonl", folds)
    tiny.replace("fares.md", "# Fares", "---\nlang: sv\n---\n# Fares")
    tiny.replace("harbours.md", "# Harbours", "---\nlang: en\n---\n# Harbours")
    base = {name: tiny.config["retrievers"][name] for name in ("bm25", "bm25-whole")}
    fusion = {"type": "rrf", "inputs": [*base], "weights": "tuned"}
    tiny.config |= {"split": {"field": "fold"}, "retrievers": {**base, "hybrid": fusion}}
    tiny.config["top_k"] = [1, 3, 5]
    tiny.write_config()
    tiny.run()
    tiny.snapshot()
    return tiny


def test_test_unless_dev_is_asked_for(tuned: Tiny, invoke: Invoke) -> None:
    for options, expected in (
        ((), "test"),
        (("--split", "dev"), "dev"),
        (("--split", "test"), "test"),
    ):
        words = ("--retriever", "bm25", "--format", "json", *options)
        rows = json.loads(board(invoke, tuned, *words).stdout)
        assert {row["split"] for row in rows} == {expected}
        assert [row["top_k"] for row in rows] == [1, 3, 5]


def test_slices_are_within_the_split(tuned: Tiny, invoke: Invoke) -> None:
    tags: dict[str, set[str]] = {}
    for name in ("dev", "test"):
        result = board(invoke, tuned, "--by", "tag", "--split", name, "--format", "json")
        rows = json.loads(result.stdout)
        assert {row["split"] for row in rows} == {name}
        tags[name] = {row["tag"] for row in rows}
    default = json.loads(board(invoke, tuned, "--by", "tag", "--format", "json").stdout)
    assert {row["tag"] for row in default} == tags["test"] != tags["dev"]


def test_without_a_split(invoke: Invoke, evaluated: tuple[Path, Path]) -> None:
    folder, store = evaluated
    for more in ((), ("--by", "tag")):
        result = invoke("leaderboard", folder, "--store", store, "--split", "dev", *more)
        assert (result.exit_code, result.stdout) == (2, "")
        problem = "the queries of tiny are not split; add `split` to its experiment.yaml"
        assert result.stderr == f"error: {problem}\n"


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
    assert TUNED_NOTE in " ".join(invoke(*compare, "dev", "--format", "csv").stderr.split())
    assert "chosen on dev" not in invoke(*compare, "test", "--format", "csv").stderr


def test_a_run_goes_out_by_split(tuned: Tiny, invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "h.trec"
    words: tuple[object, ...] = ("export-run", tuned.folder, "--retriever", "hybrid", "--out", out)
    words = (*words, "--store", tuned.root / "store")
    assert "note: the file has 3 dev and 3 test queries; " in invoke(*words).stderr
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


def test_by_a_field_of_the_relevant_documents(tuned: Tiny, invoke: Invoke) -> None:
    words = ("--by", "document.lang", "--metric", "success@1", "--split", "dev")
    result = board(invoke, tuned, *words, "--retriever", "bm25", "--format", "json")
    rows = json.loads(result.stdout)
    of = {name: rows[0][name] for name in ("evaluation_id", "started")}
    assert rows == [
        {
            "document.lang": lang,
            "n_queries": 1,
            "retriever": "bm25",
            "split": "dev",
            "hit_rate@1": 1.0,
            **of,
        }
        for lang in ("en", "sv")
    ]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ("--by", "tag", "--metric", "recall"),
            1,
            "the last evaluation of tiny has no cell of recall@5",
        ),
        (
            ("--by", "tag", "--metric", "mrr@4"),
            1,
            "the last evaluation of tiny has no cell of mrr@4",
        ),
        (("--by", "document.year"), 2, "no document has the field 'year'; allowed: lang"),
    ],
)
def test_what_cannot_be_shown(
    tuned: Tiny, invoke: Invoke, options: tuple[str, ...], code: int, message: str
) -> None:
    result = board(invoke, tuned, *options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == f"error: {message}\n"


CHUNKED = """
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
BUDGET_QUERIES = (
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
    yaml = f"{CHUNKED}context: {{tokenizer: '{word_tokenizer(root)}'}}\n"
    folder = write_beir(root / "two", {"experiment.yaml": yaml, "queries.jsonl": BUDGET_QUERIES})
    result = invoke("evaluate", folder, "--store", root / "store")
    assert result.exit_code == 0, result.output
    return folder, root / "store", sorted((root / "store").rglob("*"))


def rows(result: Result) -> dict[str, dict[str, Any]]:
    return {row["retriever"]: row for row in parsed(result)}


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


def test_tokens_and_answerability_are_shown(
    invoke: Invoke, stored: tuple[Path, Path, list[Path]]
) -> None:
    folder, store, _ = stored
    lines = invoke("leaderboard", folder, "--store", store).stdout.splitlines()
    assert "tokens@2" in lines[1].split()
    start = lines.index("unanswerable queries, detected by the best score (3 answerable, 1 not)")
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
        "error: the last evaluation of two has no retriever_contexts[retriever=long]; evaluate it "
        "again\n"
    )
