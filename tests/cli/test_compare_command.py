"""``rag-assets compare``, ``attribution``, and tables for papers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.selection import Selection
from rag_assets.statistics.comparisons import holm
from rag_assets.store.artifacts import ArtifactKey
from tests.beir_folder import write_beir
from tests.tiny_experiment import JUDGMENTS, Tiny, materialize

Invoke = Callable[..., Result]


# q5 is answered in the middle of the rankings, and by a document that no one finds.
MOVED = [
    {"query_id": "q1", "doc_id": "engines.md", "quote": "The oil is changed after 500 hours."},
    {"query_id": "q5", "doc_id": "crew.md", "quote": "A crew of five sails each ferry."},
    {"query_id": "q5", "doc_id": "lost.md", "quote": "Passports are handed to the police."},
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("compare")).start_from(computed).write()
    kept = [row for row in JUDGMENTS if row["query_id"] != "q5"]
    tiny.write_rows("judgments.jsonl", [*kept, *MOVED])
    tiny.run()
    tiny.snapshot()
    return tiny


@pytest.fixture(scope="module")
def compare(tiny: Tiny, invoke: Invoke) -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        return invoke("compare", tiny.folder, *arguments, "--store", tiny.root / "store")

    return run


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_all_pairs_are_those_of_the_evaluation(compare: Invoke, tiny: Tiny) -> None:
    stored = tiny.pipeline().artifact(ArtifactKey.of("comparisons")).table().to_pylist()
    rows = parsed(compare("--format", "json"))
    evaluation = read_current(tiny.artifacts)
    of = {"evaluation_id": evaluation.evaluation_id, "started": evaluation.started}
    assert rows == [{**row, **of} for row in stored]
    assert len(stored) == 10


def test_all_pairs_as_a_table_of_80_columns(compare: Invoke) -> None:
    lines = compare().stdout.splitlines()
    assert lines[0] == "tiny: pairs of retrievers on ndcg@5"
    heads = ["retrievers", "difference", "95", "%", "interval", "p", "Holm", "won", "lost"]
    assert lines[1].split() == heads
    assert lines[2].startswith("bm25-whole - bm25")
    assert lines[-1] == "* p < 0.05 after Holm over these pairs"
    assert max(map(len, lines)) <= 80


def test_a_pair_as_a_table_of_80_columns(compare: Invoke) -> None:
    result = compare("bm25", "bm25-whole")
    lines = result.stdout.splitlines()
    assert lines[0] == "tiny: bm25-whole against bm25 on ndcg@5"
    assert max(map(len, lines)) <= 80
    text = " ".join(result.stdout.split())
    assert "Holm over 10 pairs" in text
    assert "no difference shown between bm25 and bm25-whole on ndcg@5" in text
    assert "most lost by bm25-whole" in text or "most won by bm25-whole" in text


def test_a_pair_for_programs(compare: Invoke, tiny: Tiny) -> None:
    row = parsed(compare("bm25", "bm25-whole", "--format", "json"))
    stored = tiny.pipeline().artifact(ArtifactKey.of("comparisons")).table().to_pylist()[0]
    assert {name: row[name] for name in stored} == stored
    assert row["low_a"] <= row["mean_a"] <= row["high_a"]
    assert len(row["most_won"]) == row["won"]
    assert len(row["most_lost"]) == row["lost"]
    moved = [*row["most_won"], *row["most_lost"]]
    assert moved
    for query in moved:
        assert query["difference"] == pytest.approx(query["value_b"] - query["value_a"])
        assert query["text"]


def moves_of(row: dict[str, Any], query_id: str) -> dict[str, tuple[int | None, int | None]]:
    (query,) = [q for q in [*row["most_won"], *row["most_lost"]] if q["query_id"] == query_id]
    return {move["evidence"]: (move["rank_a"], move["rank_b"]) for move in query["moves"]}


def first_rank(tiny: Tiny, retriever: str, query_id: str, document_id: str) -> int:
    run = tiny.pipeline().artifact(ArtifactKey.of("lexical_runs", retriever=retriever, top_k=5))
    rows = run.table().to_pylist()
    wanted = (query_id, document_id)
    return min(int(row["rank"]) for row in rows if (row["query_id"], row["document_id"]) == wanted)


def test_ranks_are_those_of_the_runs(compare: Invoke, tiny: Tiny) -> None:
    moves = moves_of(parsed(compare("bm25", "bm25-whole", "--format", "json")), "q5")
    ranks = [first_rank(tiny, name, "q5", "crew.md") for name in ("bm25", "bm25-whole")]
    assert moves == {"crew.md": tuple(ranks), "lost.md": (None, None)}
    shown = compare("bm25", "bm25-whole").stdout
    assert f"crew.md: {ranks[0]} in bm25 -> {ranks[1]} in bm25-whole" in shown
    assert "lost.md: not retrieved in bm25 -> not retrieved in bm25-whole" in shown


def test_what_lies_below_the_cut_has_its_rank_all_the_same(compare: Invoke, tiny: Tiny) -> None:
    row = parsed(compare("bm25", "okapi", "--metric", "hit_rate@3", "--format", "json"))
    assert [query["query_id"] for query in row["most_lost"]] == ["q5"]
    below = first_rank(tiny, "okapi", "q5", "crew.md")
    assert below > 3
    assert moves_of(row, "q5")["crew.md"] == (first_rank(tiny, "bm25", "q5", "crew.md"), below)


def test_the_other_way_round(compare: Invoke) -> None:
    one = parsed(compare("bm25", "bm25-whole", "--format", "json"))
    other = parsed(compare("bm25-whole", "bm25", "--format", "json"))
    assert other["difference"] == pytest.approx(-one["difference"])
    assert (other["won"], other["lost"]) == (one["lost"], one["won"])
    assert other["p_adjusted"] == one["p_adjusted"]
    assert [q["query_id"] for q in other["most_won"]] == [q["query_id"] for q in one["most_lost"]]


def test_another_metric_is_a_family_of_its_own(compare: Invoke) -> None:
    rows = parsed(compare("--metric", "mrr@3", "--format", "json"))
    assert {(row["metric"], row["top_k"]) for row in rows} == {("mrr", 3)}
    adjusted = holm([row["p_randomisation"] for row in rows])
    assert [row["p_adjusted"] for row in rows] == pytest.approx(adjusted)
    pair = compare("bm25", "okapi", "--metric", "mrr@3").stdout
    assert "on mrr@3" in pair
    assert "Holm over 10 pairs" in pair
    assert parsed(compare("--metric", "mrr", "--format", "json"))[0]["top_k"] == 5


def test_show_limits_the_queries(compare: Invoke) -> None:
    row = parsed(compare("bm25", "bm25-whole", "--show", 1, "--format", "json"))
    assert {len(row["most_won"]), len(row["most_lost"])} <= {0, 1}
    assert "most" not in compare("bm25", "bm25-whole", "--show", 0).stdout


@pytest.mark.parametrize(("form", "comma"), [("csv", ","), ("markdown", " | ")])
def test_rows_for_pasting(compare: Invoke, form: str, comma: str) -> None:
    for arguments, n_rows in (((), 10), (("bm25", "okapi"), 1)):
        lines = compare(*arguments, "--format", form).stdout.splitlines()
        assert lines[0].strip("| ").split(comma)[:2] == ["retriever_a", "retriever_b"]
        assert len(lines) == n_rows + (2 if form == "markdown" else 1)


def test_shared_documents_are_noted(compare: Invoke) -> None:
    """Nine pairs of a query and a relevant document, seven documents."""
    note = " ".join(compare().stderr.split())
    assert note == (
        "note: a relevant document serves 1.3 queries on average; p and the interval of a "
        "difference allow for that; the 6 questions share so few documents that they weigh like "
        "4; only questions about other documents tell more. `statistics: {cluster: document}` "
        "takes them together in the interval of each mean too"
    )


PROBLEMS = {
    ("bm25",): "compare takes two different retrievers, or none for all pairs: bm25",
    ("bm25", "bm26"): "unknown retriever 'bm26' (did you mean 'bm25'?); allowed: bm25, bm25-whole,",
    ("bm25", "bm25"): "compare takes two different retrievers, or none for all pairs: bm25, bm25",
    ("--split", "dev"): "unknown split 'dev'; allowed: all",
    ("--metric", "ndgc@5"): "unknown metric 'ndgc@5'",
}


@pytest.mark.parametrize(("arguments", "problem"), PROBLEMS.items())
def test_wrong_usage(compare: Invoke, arguments: tuple[str, ...], problem: str) -> None:
    result = compare(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {problem}")


def test_a_metric_that_was_not_computed(compare: Invoke) -> None:
    result = compare("--metric", "map@5")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: the last evaluation of tiny has no cell of map@5\n"


def test_before_enough_was_evaluated(invoke: Invoke, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "part").write()
    arguments = ("compare", tiny.folder, "--store", tiny.root / "store")
    assert invoke(*arguments).stderr.startswith("error: tiny has no evaluation in")
    pipeline = tiny.pipeline()
    materialize(pipeline, Selection.of(pipeline.experiment, ["bm25"], [5]))
    tiny.snapshot()
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: the last evaluation of tiny has fewer than two retrievers with a cell of ndcg@5\n"
    )
    pair = invoke("compare", tiny.folder, "bm25", "okapi", *arguments[2:])
    assert pair.stderr == (
        "error: the last evaluation of tiny has no retriever 'okapi'; allowed: bm25\n"
    )


def test_without_labels(invoke: Invoke, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "bare").write()
    (tiny.folder / "judgments.jsonl").unlink()
    tiny.run()
    tiny.snapshot()
    result = invoke("compare", tiny.folder, "--store", tiny.root / "store")
    assert (result.exit_code, result.stdout) == (1, "")
    problem = "tiny had no labels when it was evaluated; `rag-assets pool` helps to judge"
    assert result.stderr == f"error: {problem}\n"


def test_the_leaderboard_marks_what_is_near_the_best(tiny: Tiny, invoke: Invoke) -> None:
    """Six questions tell no retriever from the best."""
    shown = invoke("leaderboard", tiny.folder, "--store", tiny.root / "store").stdout
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    places = [line.split()[0] for line in lines[2:7]]
    assert [place.endswith("~") for place in places] == [place[0] != "1" for place in places]
    assert any("~" in place for place in places)
    assert "~ not shown to be worse than the best on ndcg@5 (p >= 0.05 after Holm)" in lines
    assert any(line.split()[1:2] == ["ndcg@5"] and "95 % interval" in line for line in lines)


def test_every_query_that_moved(compare: Invoke) -> None:
    pair = parsed(compare("bm25", "bm25-whole", "--show", 99, "--format", "json"))
    moved = [[abs(row["difference"]) for row in pair[f"most_{side}"]] for side in ("won", "lost")]
    assert [len(of_side) for of_side in moved] == [pair["won"], pair["lost"]]
    assert moved == [sorted(of_side, reverse=True) for of_side in moved]


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
        assert (row["n_timed"], row["n_embedded"]) == (4, None)
        assert (row["index_bytes"] is None) == (name == "both")
    assert rows["both"]["queries_per_second"] < min(
        rows[name]["queries_per_second"] for name in ("words", "stems")
    )
    assert rows["words"]["index_seconds"] > 0


def test_latency_is_of_no_cut_off(invoke: Invoke, three: tuple[Path, Path]) -> None:
    result = invoke("leaderboard", three[0], "--latency", "--top-k", 1)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --top-k does not apply to --latency, ")
