from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from rag_assets.answers.contexts_stage import answer_contexts_key
from rag_assets.checks.validation import validate
from rag_assets.cli import main
from rag_assets.errors import ConfigError, DataError, UsageError
from rag_assets.evaluation.attributions_stage import attributions_key
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.metrics_stage import metrics_key, summary_key
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.failed_queries import ask_revisions, try_again, unanswered, unfinished
from rag_assets.pipeline.forgetting import to_forget
from rag_assets.pipeline.plan import plan
from rag_assets.pipeline.selection import Selection
from rag_assets.report.latency import latency_rows
from rag_assets.report.plan import plan_rows
from rag_assets.report.result import EvaluationResult
from rag_assets.retrieval.external.stage import SINGLE, hits_key, rankings_key, units_key
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import with_answers
from tests.retrieval.external.conftest import SEARCH, Searched
from tests.tiny_experiment import JUDGMENTS, QUERIES


def facts(searched: Searched, key: ArtifactKey) -> dict[str, Any]:
    return dict(searched.pipeline().artifact(key).manifest.facts)


def means(searched: Searched, retriever: str, top_k: int = 5) -> dict[str, Any]:
    rows = searched.pipeline().artifact(summary_key(retriever)).table().to_pylist()
    (row,) = [row for row in rows if row["top_k"] == top_k]
    return dict(row)


def run_ids(searched: Searched, retriever: str, query: str, top_k: int = 5) -> list[str]:
    pipeline = searched.pipeline()
    run = pipeline.artifact(run_key(pipeline.experiment, retriever, top_k)).table().to_pylist()
    return [row["unit_id"] for row in run if row["query_id"] == query]


def test_two_lines_of_yaml_evaluate_a_search_on_the_evidence(searched: Searched) -> None:
    searched.run()
    own = means(searched, "mine")
    assert own["n_failed"] == own["n_empty"] == 0
    # Each evidence is a paragraph, so each of them is a unit that the search can return.
    located = facts(searched, hits_key("mine"))
    assert located["located"] == {"exact": 30}
    assert own["hit_rate"] > 0.8
    texts = searched.pipeline().artifact(units_key("mine")).table()
    assert "A dog needs a ticket of 10 crowns." in texts["text"].to_pylist()
    # "what does a ticket for a dog cost": the words a, dog, ticket.
    assert run_ids(searched, "mine", "q1")[0] == "fares.md#92-126"
    contexts = searched.pipeline().artifact(retriever_contexts_key("mine")).table().to_pylist()
    tokens = {row["context_id"]: row["n_tokens"] for row in contexts}
    assert tokens["fares.md#92-126"] == 9


def test_a_fusion_and_a_reranker_read_it(searched: Searched) -> None:
    searched.configure("fused", type="rrf", inputs=["mine", "bm25"], candidates=5)
    searched.configure("maxsim", type="maxsim", input="mine", candidates=5)
    searched.run()
    assert means(searched, "fused")["n_failed"] == 0
    units = set(searched.pipeline().artifact(units_key("mine")).table()["chunk_id"].to_pylist())
    assert set(run_ids(searched, "maxsim", "q1")) <= units
    # Of what only the search can return nobody knows that no chunk holds it.
    experiment = searched.pipeline().experiment
    for name in ("mine", "fused", "maxsim"):
        key = attributions_key(experiment, name)
        places = searched.pipeline().artifact(key).table()["lost_at"].to_pylist()
        assert "no_chunk" not in places


def test_looking_runs_nothing(searched: Searched) -> None:
    searched.snapshot()
    pipeline = searched.pipeline()
    steps = plan(pipeline, Selection.of(pipeline.experiment))
    lines = {name: list(found) for name, found in steps.searches.items()}
    file = searched.folder / "my_search.py"
    assert lines == {"mine": [f"runs {file}:retrieve in this process"]}
    (row,) = [row for row in plan_rows(steps) if row["asset"] == "external_rankings"]
    assert row["search"] == lines["mine"]
    assert searched.log == []


def test_definitions_and_validate_run_nothing(searched: Searched) -> None:
    from click.testing import CliRunner

    from rag_assets.assets.experiment_definitions import definitions_of
    from rag_assets.cli.main import main

    definitions_of(searched.pipeline().experiment, searched.settings)
    arguments = ["validate", str(searched.folder), "--store", str(searched.settings.store)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert searched.log == []


def test_an_answerer_reads_chunks_of_its_own(searched: Searched) -> None:
    with_answers(searched, answers={"read": {"generator": "predicted", "retriever": "mine"}})
    searched.config["answers"]["read"]["budget"] = 60
    searched.write_config()
    # The search would have to be asked for what the budget has room for.
    reason = "the budget of read: its search has chunks of its own"
    assert reason in validate(searched.pipeline()).skipped
    assert searched.log == []
    lost = '{"text": "A text of no document."}'
    searched.write_search(SEARCH.replace("return [{", f"return [{lost}] + [{{"))
    searched.run()
    pipeline = searched.pipeline()
    rows = pipeline.artifact(answer_contexts_key("read@3")).table().to_pylist()
    own = pipeline.artifact(units_key("mine")).table()["chunk_id"].to_pylist()
    assert {row["unit_id"] for row in rows} <= set(own)
    assert {row["position"] for row in rows if row["document_id"].startswith("not-located#")} == {1}


def test_each_query_is_asked_once_and_a_sample_twice(searched: Searched) -> None:
    searched.config["measurements"] = {"latency_sample": 2}
    searched.write_config()
    searched.run()
    assert searched.log[0] == "loaded"
    assert searched.log[1:7] == [query["text"] for query in QUERIES]
    assert len(searched.log) == 1 + 6 + 2
    found = facts(searched, rankings_key("mine"))
    assert (found["asked_twice"], found["differed"]) == (2, 0)
    pipeline = searched.pipeline()
    recipe = pipeline.recipe(rankings_key("mine"))
    assert recipe is not None
    kept = pipeline.measurements.find(SINGLE, recipe.fingerprint)
    assert kept is not None
    assert set(kept["samples_ms"] or ()) < {query["query_id"] for query in QUERIES}
    searched.forget_log()
    assert searched.run() == set()
    assert searched.log == []


def test_what_has_another_order_the_second_time_is_said(searched: Searched) -> None:
    searched.config["measurements"] = {"latency_sample": 6}
    searched.write_config()
    turned = "best = sorted(scored, reverse=len(LOG.read_text().splitlines()) < 8)[:k]"
    searched.write_search(SEARCH.replace("best = sorted(scored, reverse=True)[:k]", turned))
    searched.run()
    (_, line) = facts(searched, rankings_key("mine"))["notes"]
    assert line.startswith("6 of 6 queries that were asked twice gave other hits, or another order")


def test_latency_is_of_single_queries_and_of_several_at_once(searched: Searched) -> None:
    searched.configure("mine", concurrency=3)
    searched.run()
    result = EvaluationResult(searched.artifacts, searched.snapshot())
    experiment = searched.pipeline().experiment
    mine, bm25 = latency_rows(result, experiment, experiment.retrievers)
    assert mine["concurrency"] == 3
    assert bm25["concurrency"] is None
    for name in ("p50_ms", "p99_ms", "concurrent_p50_ms", "concurrent_p99_ms"):
        assert isinstance(mine[name], float), name
    assert mine["n_timed"] == 1


def test_forgetting_finds_what_a_search_returned_of_a_document(searched: Searched) -> None:
    searched.run()
    searched.snapshot()
    found = to_forget(searched.settings, "fares.md")
    assert found is not None
    assert {"external_rankings", "external_units"} <= {item.kind for item in found.files}


def test_an_edit_asks_again_only_where_it_can_matter(searched: Searched) -> None:
    searched.run()
    searched.forget_log()
    searched.write_search(f"# a comment\n{SEARCH}")
    assert not searched.run()
    searched.write_search(SEARCH.replace("[a-z]+", "[a-z]{2,}"))
    assert "external_rankings/mine" in searched.run()
    searched.forget_log()
    searched.write_document("new.md", "# New\n\nA dog is a dog.\n")
    assert "external_rankings/mine" in searched.run()


def test_a_revision_stands_for_the_code_and_the_documents(searched: Searched) -> None:
    searched.configure("mine", revision="v1")
    searched.run()
    searched.forget_log()
    searched.write_search(SEARCH.replace("[a-z]+", "[a-z]{2,}"))
    searched.write_document("new.md", "# New\n\nA dog is a dog.\n")
    assert "external_rankings/mine" not in searched.run()
    assert searched.log == []
    searched.configure("mine", revision="v2")
    assert "external_rankings/mine" in searched.run()
    (line, *_) = facts(searched, rankings_key("mine"))["notes"]
    assert line.startswith("asked on ")
    assert line.endswith(" UTC at revision v2; believed until that or the queries change")


def test_the_revision_may_be_a_file(searched: Searched) -> None:
    searched.write_document("../revision.txt", "1")
    searched.configure("mine", revision={"file": "../revision.txt"})
    searched.run()
    assert not searched.run()
    searched.write_document("../revision.txt", "2")
    assert "external_rankings/mine" in searched.run()
    searched.configure("mine", revision={"file": "nowhere.txt"})
    with pytest.raises(ConfigError, match="nowhere"):
        searched.pipeline()


def test_always_asks_once_in_each_evaluation_and_looking_asks_nobody(searched: Searched) -> None:
    searched.configure("mine", revision="always")

    def evaluate() -> set[str]:
        pipeline = searched.pipeline()
        ask_revisions(pipeline, ["mine"])
        return searched.run()

    evaluate()
    searched.forget_log()
    assert not searched.run()
    pipeline = searched.pipeline()
    steps = {
        str(step.key): step for step in plan(pipeline, Selection.of(pipeline.experiment)).steps
    }
    step = steps["external_rankings[retriever=mine]"]
    assert (step.action, step.reasons[0].text) == (
        "compute",
        "asked in each evaluation (revision: always)",
    )
    assert steps["external_hits[retriever=mine]"].action == "check"
    assert searched.log == []
    assert evaluate() == {"external_rankings/mine"}  # what it returned is as it was
    assert searched.log[0] == "loaded"


def test_failures_are_no_zeros_and_are_asked_for_again(searched: Searched) -> None:
    is_down = 'if "dog" in query and not (HERE.parent / "up").exists():'
    flaky = f"{is_down}\n        raise OSError('down')\n    "
    searched.write_search(SEARCH.replace("    scored = [", f"    {flaky}scored = ["))
    searched.run()
    own = means(searched, "mine")
    assert (own["n_failed"], own["n_queries"]) == (1, 5)
    rows = searched.pipeline().artifact(metrics_key("mine", 5)).table().to_pylist()
    assert {row["query_id"]: row["ndcg"] for row in rows if row["failed"]} == {"q1": None}
    assert unfinished(searched.pipeline(), ["mine"]) == {"mine": {"q1"}}
    assert unanswered(searched.pipeline()) == {rankings_key("mine"): 1}
    (searched.root / "up").touch()
    assert not searched.run()
    assert try_again(searched.pipeline()) == 1
    searched.forget_log()
    searched.run()
    assert searched.log[:2] == ["loaded", QUERIES[0]["text"]]
    assert set(searched.log[2:]) <= {query["text"] for query in QUERIES}
    assert len(searched.log) == 3  # the query that failed, and the sample of one
    assert means(searched, "mine")["n_failed"] == 0


def test_ids_of_a_chunking_need_its_name(searched: Searched) -> None:
    searched.run()
    ids = run_ids(searched, "bm25", "q1")
    searched.write_search(f"def retrieve(query, k):\n    return {ids!r}\n")
    searched.configure("mine", chunking="parts")
    searched.run()
    assert run_ids(searched, "mine", "q1") == ids


def test_texts_that_are_from_nowhere_are_counted_and_judged_by_document(searched: Searched) -> None:
    searched.config["metrics"] = ["hit_rate", "answer_hit"]
    searched.config["primary"] = "hit_rate@5"
    searched.write_config()
    answers = [{**query, "answers": ["ten crowns"]} for query in QUERIES]
    searched.write_rows("queries.jsonl", answers)
    whole: dict[str, Any] = {"query_id": "q1", "doc_id": "fares.md"}
    searched.write_rows("judgments.jsonl", [whole, *JUDGMENTS[1:]])
    searched.write_search(
        "def retrieve(query, k):\n"
        "    return [{'text': 'A dog costs ten crowns.', 'source': 'fares.md'},\n"
        "            {'text': 'A dog costs ten crowns.'}]\n"
    )
    searched.run()
    assert facts(searched, hits_key("mine"))["located"] == {"missing": 12}
    rows = searched.pipeline().artifact(metrics_key("mine", 5)).table().to_pylist()
    hit = {row["query_id"]: row["hit_rate"] for row in rows}
    assert hit == {"q1": 1.0, "q2": 0.0, "q3": 0.0, "q4": 0.0, "q5": 0.0, "q6": 0.0}
    assert {row["answer_hit"] for row in rows} == {1.0}
    assert {row["tokens"] for row in rows} == {12}


@pytest.mark.parametrize("judge", ["document", "evidence"])
def test_a_run_file_has_texts_and_spans(searched: Searched, judge: str) -> None:
    searched.config["dataset"]["judge"] = judge
    lines: list[dict[str, Any]] = [
        {"query_id": "q1", "hits": [{"text": "A dog needs a ticket of 10 crowns."}]},
        {"query_id": "q2", "hits": [["harbours.md", 51, 122], "crew.md"]},
        {
            "query_id": "q3",
            "retrieved_contexts": ["Jackets for children are stored\nbeside the bridge."],
        },
        {"query_id": "q4", "error": "down"},
        {"query_id": "other", "hits": []},
    ]
    searched.write_rows("../run.jsonl", lines)
    searched.config["retrievers"] = {
        "theirs": {"type": "run_file", "path": "../run.jsonl", "chunking": "own"}
    }
    searched.config["baseline"] = "theirs"
    searched.write_config()
    searched.run()
    rows = searched.pipeline().artifact(metrics_key("theirs", 5)).table().to_pylist()
    hit = {row["query_id"]: row["hit_rate"] for row in rows}
    assert hit == {"q1": 1.0, "q2": 1.0, "q3": 1.0, "q4": None, "q5": 0.0, "q6": 0.0}
    assert facts(searched, rankings_key("theirs"))["notes"] == [
        "2 queries of the experiment have no rows in the file"
    ]
    assert unfinished(searched.pipeline(), ["theirs"]) == {}
    assert unanswered(searched.pipeline()) == {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"query_id": "q1", "retrieved_ids": ["a"]}, "has none of hits, retrieved_contexts"),
        ({"query_id": "q1", "hits": [{"id": 3.5}]}, "run.jsonl:1: `hits`: hit 1: `id` is 3.5"),
        ({"query_id": "q9", "hits": []}, "has none of the experiment's 6 queries"),
    ],
)
def test_a_file_of_another_form_is_said(
    searched: Searched, line: dict[str, Any], problem: str
) -> None:
    searched.write_rows("../run.jsonl", [line])
    searched.configure("theirs", type="run_file", path="../run.jsonl", chunking="own")
    with pytest.raises(DataError) as raised:
        searched.run()
    assert problem in str(raised.value)


def test_texts_without_the_word_own_are_said(searched: Searched) -> None:
    searched.write_rows("../run.jsonl", [{"query_id": "q1", "hits": [{"text": "t"}]}])
    searched.configure("theirs", type="run_file", path="../run.jsonl", chunking="parts")
    with pytest.raises(DataError, match="which a retriever reads with `chunking: own`"):
        searched.run()


def test_what_an_experiment_cannot_ask_for_is_said(searched: Searched) -> None:
    searched.configure("mine", expand={"type": "window"})
    with pytest.raises(ConfigError, match="around a chunk is known of our chunkings only"):
        searched.pipeline()
    del searched.config["retrievers"]["mine"]["expand"]
    searched.config["chunking"]["own"] = {"strategy": "none"}
    searched.write_config()
    with pytest.raises(ConfigError, match="is the name for the chunks of a search that is not"):
        searched.pipeline()
    del searched.config["chunking"]["own"]
    searched.configure("mine", call="nowhere.py:retrieve")
    with pytest.raises(ConfigError, match="nowhere"):
        load_experiment(searched.folder)


def test_code_of_a_fork_is_run_only_when_it_is_allowed(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = searched.root / "event.json"
    head = {"repo": {"full_name": "stranger/app"}}
    event.write_text(json.dumps({"pull_request": {"head": head}}))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.setenv("GITHUB_REPOSITORY", "mine/app")
    with pytest.raises(UsageError, match="a pull request from stranger/app; read it, then allow"):
        searched.run()
    assert searched.log == []
    monkeypatch.setenv("RAG_ASSETS_ALLOW_CODE", "1")
    searched.run()
    assert searched.log
    searched.forget_log()
    monkeypatch.delenv("RAG_ASSETS_ALLOW_CODE")
    for repository, options, is_run in (
        ("mine/app", ["--allow-code"], True),
        ("mine/app", [], False),  # what one evaluation was allowed, the next one is not
        ("stranger/app", [], True),  # its own branch
    ):
        searched.forget_log()
        monkeypatch.setenv("GITHUB_REPOSITORY", repository)
        searched.configure("mine", revision=f"{repository} {options}")
        store = str(searched.settings.store)
        done = CliRunner().invoke(
            main, ["evaluate", str(searched.folder), "--store", store, *options]
        )
        assert (done.exit_code == 0, bool(searched.log)) == (is_run, is_run), done.output
