from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rag_assets.pipeline.evaluations import read_current
from rag_assets.pipeline.selection import Selection
from rag_assets.statistics.pairs import holm
from rag_assets.store.artifacts import ArtifactKey
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
    ("bm25",): "compare takes two retrievers or none, not 1",
    ("bm25", "bm26"): "unknown retriever 'bm26' (did you mean 'bm25'?); allowed: bm25, bm25-whole,",
    ("bm25", "bm25"): "'bm25' is compared with itself; give two retrievers",
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


def test_every_query_and_the_ranks_of_its_evidence(compare: Invoke, tiny: Tiny) -> None:
    pair = parsed(compare("bm25", "bm25-whole", "--format", "json"))
    rows = parsed(compare("bm25", "bm25-whole", "--moves", "--format", "json"))
    outcomes = {row["query_id"]: row["outcome"] for row in rows}
    counts = [list(outcomes.values()).count(name) for name in ("won", "tied", "lost")]
    assert counts == [pair["won"], pair["tied"], pair["lost"]]
    assert [row["difference"] for row in rows] == sorted(
        (row["difference"] for row in rows), reverse=True
    )
    found = {r["evidence"]: (r["rank_a"], r["rank_b"]) for r in rows if r["query_id"] == "q5"}
    ranks = tuple(first_rank(tiny, name, "q5", "crew.md") for name in ("bm25", "bm25-whole"))
    assert found == {"crew.md": ranks, "lost.md": (None, None)}
    heads = compare("bm25", "bm25-whole", "--moves", "--format", "csv").stdout.splitlines()[0]
    columns = "query_id,outcome,difference,value_a,value_b,evidence,rank_a,rank_b"
    assert heads == f"{columns},evaluation_id,started"
    lines = compare("bm25", "bm25-whole", "--moves").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"queries of bm25-whole: {pair['won']} won, {pair['tied']} tied" in "\n".join(lines)


def test_moves_without_two_retrievers(compare: Invoke) -> None:
    result = compare("--moves")
    assert result.exit_code == 2
    assert "--moves belongs to two retrievers" in result.stderr
