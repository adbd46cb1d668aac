"""Experiments without labels, pools that grow, and the README's example."""

from __future__ import annotations

import random
import re
from pathlib import Path

import click
import duckdb
import pytest
import yaml

from rag_assets.analysis.overlaps import overlap_rows
from rag_assets.analysis.result import EvaluationResult
from rag_assets.assets.evaluate import evaluate
from rag_assets.cli import main
from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.likeness_stage import Pair, overlaps, overlaps_key
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.experiment import load_experiment
from rag_assets.labels.experiment_pool import sampled_pool
from rag_assets.labels.page.session import Passages
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES, required_partitions
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.report.html import render
from rag_assets.retrieval.ask import ask
from rag_assets.retrieval.runs_stage import chunk_keys, run_key
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from tests.assets.test_graph import check_edges
from tests.tiny_experiment import DOCUMENTS, JUDGMENTS, QUERIES, Tiny, materialize

LABELLED = {
    "qrels",
    "relevant_units",
    "metrics",
    "metrics_summary",
    "leaderboard",
    "intervals",
    "comparisons",
    "attributions",
    "answerability",
    "retriever_contexts",
    "query_facts",
}
UNLABELLED = {
    *("documents", "queries", "chunks", "query_sets", "term_counts", "lexical_index"),
    *("lexical_queries", "lexical_runs", "fused_runs", "overlaps"),
}


@pytest.fixture
def unlabelled(tmp_path: Path) -> Tiny:
    tiny = Tiny(tmp_path / "tiny")
    tiny.config["top_k"] = [1, 3, 5]
    tiny.write()
    (tiny.folder / "judgments.jsonl").unlink()
    return tiny


def test_stages_that_need_labels_do_not_exist(unlabelled: Tiny) -> None:
    names = {stage.name for stage in unlabelled.pipeline().stages()}
    assert names == UNLABELLED
    assert unlabelled.pipeline().experiment.judge == "evidence"


def test_every_pair_is_compared_on_the_runs_of_its_cut_off(unlabelled: Tiny) -> None:
    pipeline = unlabelled.pipeline()
    materialize(pipeline)
    experiment = pipeline.experiment
    names = list(experiment.retrievers)
    pairs = [
        Pair(a, b, "unit" if {a, b} <= {"bm25", "okapi", "shallow"} else "document")
        for number, a in enumerate(names)
        for b in names[number + 1 :]
    ]
    for top_k in (1, 3, 5):
        runs = {name: pipeline.artifact(run_key(experiment, name, top_k)).table() for name in names}
        stored = pipeline.artifact(overlaps_key(top_k)).table()
        assert stored.num_rows == 10
        assert stored.equals(overlaps(runs, pairs))
    assert materialize(unlabelled.pipeline()) == set()


def test_dagster_knows_exactly_the_parents(unlabelled: Tiny) -> None:
    assert check_edges(unlabelled, ["overlaps"]) == 5 * 3


def test_an_evaluation_and_what_is_shown_of_it(unlabelled: Tiny) -> None:
    pipeline = unlabelled.pipeline()
    evaluation = evaluate(pipeline, Selection.of(pipeline.experiment)).evaluation
    assert evaluation.complete
    result = EvaluationResult(pipeline.root, evaluation)
    assert not result.has_metrics
    with pytest.raises(NotEvaluated, match="tiny had no labels when it was evaluated"):
        _ = result.leaderboard
    rows = overlap_rows(result)
    assert len(rows) == 3 * 10
    assert list(rows[0]) == [
        "retriever_a",
        "retriever_b",
        "top_k",
        "compared",
        "n_queries",
        "overlap",
    ]
    assert set(result.speed) == set(pipeline.experiment.retrievers)
    page = render(result)
    assert "Overlap between retrievers" in page
    assert "Leaderboard" not in page
    with duckdb.connect(str(pipeline.settings.warehouse), read_only=True) as connection:
        counted = connection.sql("SELECT count(*), count(DISTINCT top_k) FROM run_overlaps")
        assert counted.fetchall() == [(30, 3)]
    again = unlabelled.pipeline()
    work = evaluate(again, Selection.of(again.experiment))
    assert (work.computed, work.evaluation.dagster_runs) == (0, ())


def test_labels_turn_overlaps_into_metrics_and_search_nothing_again(unlabelled: Tiny) -> None:
    unlabelled.run()
    unlabelled.write_rows("judgments.jsonl", JUDGMENTS)
    computed = {name.partition("/")[0] for name in unlabelled.run()}
    assert computed == LABELLED
    assert unlabelled.snapshot().complete


OWN_SEARCH = """
def retrieve(query, k):
    return [("crew.md", 0, 40), {"text": "Each ferry has two diesel engines"}, "lost.md"][:k]
"""
OWN_RUN = '{"query_id": "%s", "hits": [{"text": "A dog needs a ticket of 10 crowns."}]}\n'
OWN = {
    "python": {"type": "python", "call": "mine.py:retrieve"},
    "http": {
        "type": "http",
        "url": "http://127.0.0.1:9/search?q={query}&n={k}",
        "method": "GET",
        "hits": "hits",
        "id": "id",
        "revision": "1",
    },
    "sql": {
        "type": "sql",
        "database": "mine.jsonl",
        "query": "SELECT :query AS text LIMIT :k",
        "revision": "1",
    },
    "run_file": {"type": "run_file", "path": "mine.jsonl", "chunking": "own"},
}
READ_BY = {
    "mixed": {"type": "rrf", "inputs": ["mine", "bm25"]},
    "diverse": {"type": "mmr", "input": "mixed", "candidates": 3},
}


@pytest.fixture(params=OWN)
def own_search(request: pytest.FixtureRequest, unlabelled: Tiny) -> Tiny:
    """A search that is not ours, which returns texts of its own, and what reads it."""
    bm25 = unlabelled.config["retrievers"]["bm25"]
    unlabelled.config["retrievers"] = {"mine": OWN[request.param], "bm25": bm25, **READ_BY}
    unlabelled.config |= {"baseline": "mine", "primary": "ndcg@3", "top_k": [3]}
    (unlabelled.folder / "mine.py").write_text(OWN_SEARCH, encoding="utf-8")
    lines = "".join(OWN_RUN % row["query_id"] for row in QUERIES)
    (unlabelled.folder / "mine.jsonl").write_text(lines, encoding="utf-8")
    unlabelled.write_config()
    return unlabelled


@pytest.mark.parametrize("labelled", [False, True])
def test_no_stage_reads_what_this_experiment_does_not_have(
    own_search: Tiny, labelled: bool
) -> None:
    if labelled:
        own_search.write_rows("judgments.jsonl", JUDGMENTS)
    experiment = own_search.pipeline().experiment
    everything = {key for stage in STAGES.values() for key in stage.keys(experiment)}
    for key in everything:
        inputs = STAGES[key.asset].inputs(experiment, key)
        assert {one.key for one in inputs if not one.optional} <= everything, key
    for retriever in experiment.retrievers:
        required = required_partitions(experiment, Selection.of(experiment, [retriever]))
        computed = {key for keys in required.values() for key in keys}
        assert {*chunk_keys(experiment, retriever)} <= computed


@pytest.mark.parametrize("own_search", ["python", "run_file"], indirect=True)
def test_passages_of_ones_own_search_can_be_asked_for_and_labelled(own_search: Tiny) -> None:
    answers = {one.retriever: one for one in ask(own_search.pipeline(), "a dog", top_k=2)}
    if OWN["python"] in own_search.config["retrievers"].values():
        texts = [hit.text for hit in answers["mine"].hits]
        assert texts[1] == "Each ferry has two diesel engines"
        assert {hit.text for hit in answers["diverse"].hits} & {*texts}
    own_search.run()
    own_search.snapshot()
    pool = sampled_pool(own_search.pipeline(), 3).pool
    tables = (own_search.pipeline().artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY))
    passages = Passages(*tables)
    texts = [passages.text(*item[1:])["text"] for item in pool.items]
    assert any("A dog needs a ticket" in text or "diesel" in text for text in texts)
    assert materialize(own_search.pipeline()) == set()


TOP_K = (1, 2, 3, 4, 5)


def tiny_of(root: Path, first: list[str], second: list[str]) -> Tiny:
    """Two runs that rank the documents so for every question, and both fusions of them."""
    tiny = Tiny(root)
    tiny.config["dataset"]["judge"] = "document"
    tiny.config |= {"top_k": list(TOP_K), "metrics": ["hit_rate", "mrr", "recall"]}
    tiny.config |= {"primary": "mrr@5", "baseline": "first"}
    fused = {"type": "rrf", "inputs": ["first", "second"]}
    tiny.config["retrievers"] = {
        "first": {"type": "run_file", "chunking": "whole", "path": "first.txt"},
        "second": {"type": "run_file", "chunking": "whole", "path": "second.txt"},
        "growing": {**fused, "candidates": "top_k"},
        "fixed": {**fused, "candidates": 8},
    }
    tiny.write()
    for name, ids in (("first", first), ("second", second)):
        lines = [
            f"q{query} Q0 {one} {rank} {-rank} run\n"
            for query in range(1, 7)
            for rank, one in enumerate(ids, 1)
        ]
        (tiny.folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    return tiny


def means(tiny: Tiny, retriever: str, name: str) -> list[float]:
    """The metric of the first question, q1, at each cut-off."""
    pipeline = tiny.pipeline()
    tables = [pipeline.artifact(metrics_key(retriever, k)).table() for k in TOP_K]
    return [row[name] for table in tables for row in table.to_pylist() if row["query_id"] == "q1"]


def test_mrr_falls_where_the_pool_grows(tmp_path: Path) -> None:
    """At 1 the relevant document ties with another; at 2 one that both lists have overtakes it."""
    rest = ["harbours.md", "timetable.md", "lost.md"]
    first = ["fares.md", "engines.md", *rest]
    second = ["crew.md", "engines.md", *reversed(rest)]
    tiny = tiny_of(tmp_path / "tiny", first, second)
    tiny.run()
    assert means(tiny, "growing", "mrr")[:2] == [1, 0.5]
    for name in ("hit_rate", "mrr", "recall"):
        values = means(tiny, "fixed", name)
        assert values == sorted(values)


def test_nothing_falls_where_the_pool_is_fixed(tmp_path: Path) -> None:
    drawn = random.Random(0)
    first, second = (drawn.sample(sorted(DOCUMENTS), len(DOCUMENTS)) for _ in range(2))
    tiny = tiny_of(tmp_path / "tiny", first, second)
    tiny.run()
    for name in ("hit_rate", "mrr", "recall"):
        values = means(tiny, "fixed", name)
        assert values == sorted(values), name


REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = {
    name: (REPOSITORY / name).read_text(encoding="utf-8")
    for name in (
        "README.md",
        "docs/index.md",
        "docs/install.md",
        "docs/leaderboard.md",
        "docs/own_data.md",
        "docs/sample.md",
    )
}
TEXT = "\n".join(PAGES.values())


def block(page: str, language: str) -> str:
    """Return the first block of a page in a language."""
    found = re.search(rf"^ *```{language}\n(.*?)^ *```", PAGES[page], re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^()#\s]+)", PAGES[page])
    missing = [link for link in links if not (REPOSITORY / page).parent.joinpath(link).is_file()]
    assert links
    assert not missing


def test_the_yaml_example_is_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q", "text": "t"}\n', encoding="utf-8")
    example = block("docs/own_data.md", "yaml")
    (tmp_path / "experiment.yaml").write_text(example, encoding="utf-8")
    experiment = load_experiment(tmp_path)
    assert set(experiment.retrievers) == set(yaml.safe_load(example)["retrievers"])


def test_the_sql_example_runs(tiny: Tiny) -> None:
    statement = block("docs/sample.md", "sql").replace("'minilm'", "'okapi'")
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:
        rows = connection.sql(statement.replace("top_k = 10", "top_k = 3")).fetchall()
    assert rows
    assert rows == sorted(rows, key=lambda row: -row[2])


@pytest.mark.parametrize("name", sorted(set(re.findall(r"rag-assets ([a-z]+(?:-[a-z]+)*)", TEXT))))
def test_every_command_exists(name: str) -> None:
    assert name in main.list_commands(click.Context(main))


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`)make ([a-z]+)", TEXT, re.M))))
def test_every_make_target_exists(target: str) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE)
