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
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES, required_partitions
from rag_assets.pipeline.warehouse import rebuild
from rag_assets.retrieval.runs_stage import chunk_keys
from tests.assets.test_graph import check_edges
from tests.tiny_experiment import DOCUMENTS, JUDGMENTS, Tiny

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


def without_labels(root: Path) -> Tiny:
    tiny = Tiny(root / "tiny")
    tiny.config["top_k"] = [1, 3, 5]
    tiny.write()
    (tiny.folder / "judgments.jsonl").unlink()
    return tiny


@pytest.fixture
def unlabelled(tmp_path: Path) -> Tiny:
    return without_labels(tmp_path)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment, evaluated; tests only read it."""
    tiny = without_labels(tmp_path_factory.mktemp("unlabelled"))
    pipeline = tiny.pipeline()
    assert evaluate(pipeline, Selection.of(pipeline.experiment)).evaluation.complete
    return tiny


def test_dagster_knows_exactly_the_parents(unlabelled: Tiny) -> None:
    assert check_edges(unlabelled, ["overlaps"]) == 5 * 3


def test_an_evaluation_and_what_is_shown_of_it(evaluated: Tiny) -> None:
    pipeline = evaluated.pipeline()
    result = EvaluationResult.current(pipeline.root)
    assert not result.has_metrics
    with pytest.raises(NotEvaluated, match="tiny had no labels when it was evaluated"):
        _ = result.leaderboard
    assert len(overlap_rows(result)) == 3 * 10
    assert set(result.speed) == set(pipeline.experiment.retrievers)
    with duckdb.connect(str(pipeline.settings.warehouse), read_only=True) as connection:
        counted = connection.sql("SELECT count(*), count(DISTINCT top_k) FROM run_overlaps")
        assert counted.fetchall() == [(30, 3)]


def test_labels_turn_overlaps_into_metrics_and_search_nothing_again(
    evaluated: Tiny, tmp_path: Path
) -> None:
    labelled = evaluated.copy_to(tmp_path / "labelled")
    again = labelled.pipeline()
    work = evaluate(again, Selection.of(again.experiment))
    assert (work.computed, work.evaluation.dagster_runs) == (0, ())
    labelled.write_rows("judgments.jsonl", JUDGMENTS)
    assert {name.partition("/")[0] for name in labelled.run()} == LABELLED
    assert labelled.snapshot().complete


OWN = {
    "python": {"type": "python", "call": "mine.py:retrieve"},
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
    (unlabelled.folder / "mine.py").write_text("def retrieve(query, k): return []\n")
    hits = [{"text": "A dog needs a ticket of 10 crowns."}]
    unlabelled.write_rows("mine.jsonl", [{"query_id": "q1", "hits": hits}])
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


CUT_OFFS = (1, 2, 3, 4, 5)


def test_mrr_falls_where_the_pool_grows_and_nothing_where_it_is_fixed(tmp_path: Path) -> None:
    """At 1 the relevant document ties with another; at 2 one that both lists have overtakes it."""
    rest, drawn = ["harbours.md", "timetable.md", "lost.md"], random.Random(0)
    first, second = ["fares.md", "engines.md", *rest], ["crew.md", "engines.md", *reversed(rest)]
    lists = {
        name: [ranked, drawn.sample(sorted(DOCUMENTS), len(DOCUMENTS))]
        for name, ranked in (("first", first), ("second", second))
    }
    tiny = Tiny(tmp_path / "tiny")
    tiny.config["dataset"]["judge"] = "document"
    tiny.config |= {"top_k": list(CUT_OFFS), "metrics": ["hit_rate", "mrr", "recall"]}
    tiny.config |= {"primary": "mrr@5", "baseline": "first"}
    fused = {"type": "rrf", "inputs": ["first", "second"]}
    tiny.config["retrievers"] = {
        **{n: {"type": "run_file", "chunking": "whole", "path": f"{n}.txt"} for n in lists},
        "growing": {**fused, "candidates": "top_k"},
        "fixed": {**fused, "candidates": 8},
    }
    tiny.write()
    for name, rankings in lists.items():
        lines = [
            f"q{query} Q0 {one} {rank} {-rank} run\n"
            for query, ids in enumerate(rankings, 1)
            for rank, one in enumerate(ids, 1)
        ]
        (tiny.folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    tiny.run()

    def values(retriever: str, metric: str, query_id: str) -> list[float]:
        rows = [row for k in CUT_OFFS for row in tiny.rows(metrics_key(retriever, k))]
        return [row[metric] for row in rows if row["query_id"] == query_id]

    assert values("growing", "mrr", "q1")[:2] == [1, 0.5]
    for metric in ("hit_rate", "mrr", "recall"):
        for query_id in ("q1", "q2"):
            found = values("fixed", metric, query_id)
            assert found == sorted(found), (metric, query_id)


REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PAGES = ("index", "install", "leaderboard", "own_data", "sample")
DOCS = {name: (REPOSITORY / "docs" / f"{name}.md").read_text("utf-8") for name in PAGES}


def block(page: str, language: str) -> str:
    """Return the first block of a page in a language."""
    found = re.search(rf"^ *```{language}\n(.*?)^ *```", DOCS[page], re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_readme_is_short_and_its_links_lead_to_files() -> None:
    """Those of the other pages are looked at when the site is built."""
    assert len(README.splitlines()) <= 150
    links = re.findall(r"\]\((?!https?:|#)([^()#\s]+)", README)
    assert links
    assert [link for link in links if not REPOSITORY.joinpath(link).is_file()] == []


def test_the_yaml_example_is_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q", "text": "t"}\n', encoding="utf-8")
    example = block("own_data", "yaml")
    (tmp_path / "experiment.yaml").write_text(example, encoding="utf-8")
    assert set(load_experiment(tmp_path).retrievers) == set(yaml.safe_load(example)["retrievers"])


def test_the_sql_example_runs(tiny: Tiny) -> None:
    statement = block("sample", "sql").replace("'minilm'", "'okapi'")
    with duckdb.connect(str(rebuild(tiny.settings)), read_only=True) as connection:
        rows = connection.sql(statement.replace("top_k = 10", "top_k = 3")).fetchall()
    assert rows
    assert rows == sorted(rows, key=lambda row: -row[2])


def test_every_command_and_target_exists() -> None:
    text = "\n".join([README, *DOCS.values()])
    commands = set(re.findall(r"rag-assets ([a-z]+(?:-[a-z]+)*)", text))
    assert commands <= {*main.list_commands(click.Context(main))}
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE))
    assert targets <= {*re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE)}
    assert commands
    assert targets
