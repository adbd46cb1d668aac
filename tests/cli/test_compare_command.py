"""``rag-assets compare``, ``attribution``, and tables for papers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rag_assets.pipeline.selection import Selection
from rag_assets.statistics.comparisons import holm
from rag_assets.store.artifacts import ArtifactKey
from tests.cli.conftest import Invoke, parsed
from tests.tiny_experiment import JUDGMENTS, Tiny, materialize

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
    tiny.config["metrics"] += ["tp", "fn"]
    tiny.write_config()
    tiny.run()
    tiny.snapshot()
    return tiny


@pytest.fixture(scope="module")
def compare(tiny: Tiny, invoke: Invoke) -> Invoke:
    def run(*arguments: object) -> Result:
        return invoke("compare", tiny.folder, *arguments, "--store", tiny.root / "store")

    return run


def moves_of(row: dict[str, Any], query_id: str) -> dict[str, tuple[int | None, int | None]]:
    (query,) = [q for q in [*row["most_won"], *row["most_lost"]] if q["query_id"] == query_id]
    return {move["evidence"]: (move["rank_a"], move["rank_b"]) for move in query["moves"]}


def first_rank(tiny: Tiny, retriever: str, query_id: str, document_id: str) -> int:
    run = tiny.pipeline().artifact(ArtifactKey.of("lexical_runs", retriever=retriever, top_k=5))
    rows = run.table().to_pylist()
    wanted = (query_id, document_id)
    return min(int(row["rank"]) for row in rows if (row["query_id"], row["document_id"]) == wanted)


def test_every_query_that_moved_and_its_ranks(compare: Invoke, tiny: Tiny) -> None:
    pair = parsed(compare("bm25", "bm25-whole", "--show", 99, "--format", "json"))
    moved = [[abs(row["difference"]) for row in pair[f"most_{side}"]] for side in ("won", "lost")]
    assert [len(of_side) for of_side in moved] == [pair["won"], pair["lost"]]
    assert moved == [sorted(of_side, reverse=True) for of_side in moved]
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


def test_fewer_mistakes_win(compare: Invoke) -> None:
    """What one finds more of the other misses: both metrics name the same winners."""
    hits, misses = (
        parsed(compare("bm25", "okapi", "--metric", f"{name}@3", "--format", "json"))
        for name in ("tp", "fn")
    )
    assert misses["difference"] == -hits["difference"] != 0
    for name in ("won", "tied", "lost"):
        assert misses[name] == hits[name]
    for name in ("most_won", "most_lost"):
        assert [q["query_id"] for q in misses[name]] == [q["query_id"] for q in hits[name]]


def test_another_metric_is_a_family_of_its_own(compare: Invoke) -> None:
    rows = parsed(compare("--metric", "mrr@3", "--format", "json"))
    assert {(row["metric"], row["top_k"]) for row in rows} == {("mrr", 3)}
    adjusted = holm([row["p_randomisation"] for row in rows])
    assert [row["p_adjusted"] for row in rows] == pytest.approx(adjusted)
    pair = compare("bm25", "okapi", "--metric", "mrr@3").stdout
    assert "on mrr@3" in pair
    assert "Holm over 10 pairs" in pair
    assert parsed(compare("--metric", "mrr", "--format", "json"))[0]["top_k"] == 5


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("bm25", "bm26"), 2, "unknown retriever 'bm26' (did you mean 'bm25'?); allowed: bm25, "),
        (("--split", "dev"), 2, "the queries of tiny are not split; add `split` to its"),
        (("--metric", "ndgc@5"), 2, "unknown metric 'ndgc@5'"),
        (("--metric", "map@5"), 1, "the last evaluation of tiny has no cell of map@5\n"),
    ],
)
def test_what_cannot_be_compared(
    compare: Invoke, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    result = compare(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"error: {problem}")


def test_before_enough_was_evaluated(invoke: Invoke, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "part").write()
    arguments = ("compare", tiny.folder, "--store", tiny.root / "store")
    attribution = ("attribution", *arguments[1:])
    for command in (arguments, attribution):
        assert invoke(*command).stderr.startswith("error: tiny has no evaluation in")
    for top_k in (3, 5):  # attributions read the cells of the primary metric, at 5
        pipeline = tiny.pipeline()
        materialize(pipeline, Selection.of(pipeline.experiment, ["bm25"], [top_k]))
        tiny.snapshot()
        result = invoke(*attribution)
        told = "the last evaluation of tiny does not show where evidence" in result.stderr
        assert (result.exit_code, told) == ((1, True) if top_k == 3 else (0, False))
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: the last evaluation of tiny has fewer than two retrievers with a cell of ndcg@5\n"
    )
    assert invoke("compare", tiny.folder, "bm25", "okapi", *arguments[2:]).stderr == (
        "error: the last evaluation of tiny has no retriever 'okapi'; allowed: bm25\n"
    )


def test_the_lost_evidences(tiny: Tiny, invoke: Invoke) -> None:
    base = ("attribution", tiny.folder, "--store", tiny.root / "store")
    rows = list(csv.DictReader(io.StringIO(invoke(*base, "--queries", "--format", "csv").stdout)))
    summary = parsed(invoke(*base, "--format", "json"))
    lost = {row["retriever"]: row["n_evidences"] - row["found"] for row in summary}
    assert {name: sum(row["retriever"] == name for row in rows) for name in lost} == lost
    assert {row["retriever"] for row in rows if row["query"] == "last ferry in winter"} == {*lost}
    shown = invoke(*base, "--queries", "--retriever", "bm25").stdout
    assert f"{lost['bm25']} lost" in shown
    assert max(map(len, shown.splitlines())) <= 80
