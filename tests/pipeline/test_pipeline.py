"""Partitions are brought up to date, once; failures, retries, costs of servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.errors import DataError, MissingArtifact, UsageError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_names import register, registered
from rag_assets.pipeline.failed_queries import failed_queries, try_again, unanswered
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES
from rag_assets.report.html import render
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.parquet_files import read_parquet
from tests.llm.server import Server, error, refuses
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import QUERIES, Tiny, matching, materialize, short

TOP_K = (1, 3, 5)

ROOT = Path(__file__).parents[2]
NO_RESULTS = ("measurements/", "evaluations/", "history/")

RUN = """
import sys
from pathlib import Path
from tests.tiny_experiment import Tiny
Tiny(Path(sys.argv[1])).run()
"""


def contents(folder: Path) -> dict[str, bytes]:
    """All artifacts below a folder."""
    return {
        name: file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and not (name := file.relative_to(folder).as_posix()).startswith(NO_RESULTS)
    }


@pytest.mark.slow
def test_two_empty_stores_become_the_same_byte_for_byte(
    pipeline_master: Tiny, tmp_path: Path
) -> None:
    """In another process, with another seed of hashes and another number of threads."""
    other = Tiny(tmp_path / "other", pipeline_master.config).write()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "12345",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", RUN, str(other.root)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    ours, theirs = contents(pipeline_master.objects("")), contents(other.objects(""))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert len(ours) > 60


def test_a_missing_input_is_named(fresh: Tiny) -> None:
    pipeline = fresh.pipeline()
    key = ArtifactKey.of("chunks", chunking="parts")
    with pytest.raises(MissingArtifact, match=r"^documents is not in the store .* evaluate /"):
        pipeline.materialize("chunks", [key])
    with pytest.raises(MissingArtifact, match=r"chunks\[chunking=parts\] is not in the store"):
        pipeline.artifact(key)
    assert not fresh.settings.store.joinpath("tiny", "chunks").exists()


def test_outcomes_come_in_the_order_asked_for(tiny: Tiny) -> None:
    pipeline = tiny.pipeline()
    keys = STAGES["metrics"].keys(pipeline.experiment)[::-1]
    tiny.lose("metrics", "bm25")
    outcomes = pipeline.materialize("metrics", keys)
    assert [outcome.key for outcome in outcomes] == keys
    assert {o.key["retriever"] for o in outcomes if not o.reused} == {"bm25"}
    assert all((outcome.seconds > 0) is not outcome.reused for outcome in outcomes)


@pytest.mark.parametrize(
    ("asset", "name"), [("documents", "crew.md"), ("qrels", "judgments.jsonl")]
)
def test_a_file_that_is_edited_between_hash_and_reading_is_refused(
    fresh: Tiny, asset: str, name: str
) -> None:
    """Else the old fingerprint would hold the new content for ever."""
    pipeline = fresh.pipeline()
    assert pipeline.source_digests
    if asset == "qrels":
        materialize_sources = ["documents", "queries"]
        for source in materialize_sources:
            pipeline.materialize(source, [ArtifactKey.of(source)])
    file = fresh.folder / name
    file.write_text(file.read_text() + "\n")
    with pytest.raises(DataError, match=f"the {asset} changed while they were read"):
        pipeline.materialize(asset, [ArtifactKey.of(asset)])
    assert not list(fresh.objects(asset).glob("*"))
    assert asset in fresh.run()


def test_two_processes_compute_everything_once(fresh: Tiny, pipeline_master: Tiny) -> None:
    # Neither has to read the source for the versions of the code.
    shutil.copytree(pipeline_master.settings.code_versions, fresh.settings.code_versions)
    code = RUN.replace("Tiny(Path(sys.argv[1])).run()", "print(*Tiny(Path(sys.argv[1])).run())")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(fresh.root)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    computed = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(computed[0] + computed[1]) == sorted(matching(fresh.pipeline(), "*"))


class TestSelection:
    def test_a_fusion_needs_its_inputs_but_not_their_metrics(self, fresh: Tiny) -> None:
        pipeline = fresh.pipeline()
        chosen = Selection.of(pipeline.experiment, ["hybrid"], [1, 5])
        assert materialize(pipeline, chosen) == matching(
            pipeline,
            "documents",
            "queries",
            "qrels",
            "query_facts",
            "chunks/*",
            "retriever_contexts/hybrid",
            "query_sets/*",
            "term_counts/*:english",
            "lexical_index/bm25*",
            "lexical_queries/bm25*",
            "relevant_units/hybrid",
            "lexical_runs/bm25*/1",
            "lexical_runs/bm25*/5",
            "fused_runs/hybrid/[15]",
            "metrics/hybrid/[15]",
            "metrics_summary/hybrid",
            "intervals/hybrid",
            "leaderboard",
            "comparisons",
            "attributions/hybrid/5",
            "answerability",
        )

    def test_order_is_that_of_the_experiment(self, fresh: Tiny) -> None:
        chosen = Selection.of(fresh.pipeline().experiment, ["okapi", "bm25"], [5, 1])
        assert chosen == Selection(("bm25", "okapi"), (1, 5))

    def test_unknown_names_are_refused(self, fresh: Tiny) -> None:
        experiment = fresh.pipeline().experiment
        with pytest.raises(UsageError, match=r"'bm52' \(did you mean 'bm25'\?\); allowed: bm25,"):
            Selection.of(experiment, ["bm52"])
        with pytest.raises(UsageError, match="top_k 7 is not in tiny; allowed: 1, 3, 5"):
            Selection.of(experiment, [], [7])


class TestRegistry:
    def test_an_experiment_is_listed_with_its_file(self, fresh: Tiny) -> None:
        register(fresh.pipeline().experiment, fresh.settings)
        register(fresh.pipeline().experiment, fresh.settings)
        assert registered(fresh.settings) == {"tiny": str(fresh.folder / "experiment.yaml")}

    def test_a_name_that_is_taken_is_refused(self, fresh: Tiny, tmp_path: Path) -> None:
        register(fresh.pipeline().experiment, fresh.settings)
        other = Tiny(tmp_path / "other").write().pipeline().experiment
        with pytest.raises(UsageError, match=r"the name 'tiny' of .*other.* is taken by .*fresh"):
            register(other, fresh.settings)

    def test_a_name_is_free_when_its_experiment_is_gone(self, fresh: Tiny, tmp_path: Path) -> None:
        register(fresh.pipeline().experiment, fresh.settings)
        shutil.rmtree(fresh.folder)
        other = Tiny(tmp_path / "other").write()
        register(other.pipeline().experiment, fresh.settings)
        assert registered(fresh.settings) == {"tiny": str(other.folder / "experiment.yaml")}

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"tiny": 5, "../x": "y"}'])
    def test_a_damaged_list_is_made_anew(self, fresh: Tiny, content: str) -> None:
        fresh.settings.state_dir.mkdir()
        fresh.settings.registry.write_text(content)
        assert registered(fresh.settings) == {}
        register(fresh.pipeline().experiment, fresh.settings)
        assert set(registered(fresh.settings)) == {"tiny"}


def failing(one: Tiny, *query_ids: str) -> Pipeline:
    """The experiment, after bm25 failed on some queries."""
    pipeline = one.pipeline()
    materialize(pipeline)
    pipeline = one.pipeline()
    key = run_key(pipeline.experiment, "bm25", 1)
    run = pipeline.artifact(key)
    manifest = replace(run.manifest, failures=dict.fromkeys(query_ids, "timed out"))
    pipeline.assume(key, replace(run, manifest=manifest))
    return pipeline


def test_labels_that_retrievers_share_are_read_once_for_measures_in_python(
    one: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.config |= {"metrics": ["ndcg", "rndcg"], "top_k": [1, 3], "primary": "ndcg@1"}
    one.config["retrievers"]["same"] = {**one.config["retrievers"]["bm25"], "k1": 0.9}
    one.write_config()
    read: list[Path] = []

    def noting(path: Path, *columns: Sequence[str]) -> pa.Table:
        read.append(path)
        return read_parquet(path, *columns)

    monkeypatch.setattr("rag_assets.evaluation.metrics.read_parquet", noting)
    materialize(one.pipeline())
    labels = [path for path in read if "relevant_units" in path.parts]
    chunkings = {options["chunking"] for options in one.config["retrievers"].values()}
    assert len(set(labels)) == len(labels) == len(chunkings) == 2


def test_a_failed_query_is_no_zero_and_the_evaluation_is_not_complete(one: Tiny) -> None:
    assert evaluated(one.pipeline()).evaluation.complete
    result = evaluated(failing(one, "q1", "q2"))
    assert not result.evaluation.complete
    metrics = {row["query_id"]: row for row in result.query_metrics(1)["bm25"].to_pylist()}
    assert [q for q, row in metrics.items() if row["failed"]] == ["q1", "q2"]
    assert [q for q, row in metrics.items() if row["mrr"] is None] == ["q1", "q2"]
    board = {row["retriever"]: row for row in result.leaderboard.to_pylist()}
    kept = [row["mrr"] for query_id, row in metrics.items() if query_id not in {"q1", "q2"}]
    row = board["bm25"]
    assert row["mrr"] == sum(kept) / 4
    assert (row["n_attempted"], row["n_failed"], row["n_queries"]) == (6, 2, 4)
    assert board["bm25-whole"]["n_queries"] == 6
    lines = shown(result)
    assert lines[0] == "tiny: top_k 1, mean over 6 queries"
    assert any(line.split()[1:3] == ["bm25", "!"] for line in lines)
    assert "bm25 !: failed on 2 of 6 queries, which count in no mean" in lines
    assert "a retriever failed on queries" in render(result)


def test_failures_are_part_of_what_metrics_are_made_from(one: Tiny) -> None:
    cell = metrics_key("bm25", 1)
    calm, failed = failing(one).recipe(cell), failing(one, "q1").recipe(cell)
    assert calm != failed
    assert calm == one.pipeline().recipe(cell)


def test_a_retriever_that_failed_on_every_query_has_no_value(one: Tiny) -> None:
    result = evaluated(failing(one, *(q["query_id"] for q in QUERIES)))
    lines = shown(result)
    (line,) = (line for line in lines if "bm25 !" in line and "failed" not in line)
    assert line.split()[:4] == ["2", "bm25", "!", "-"]
    page = re.sub(r"<[^>]*>", "", render(result))
    assert "bm25-whole, without a comparison" in page
    assert "its mrr@1 is 1.0000" in page
    assert "the next best" not in page
    assert [row["mrr"] is None for row in result.leaderboard.to_pylist()] == [False, True]


HEAD = {
    "dataset": {"format": "markdown"},
    "chunking": {"whole": {"strategy": "none"}},
    "top_k": [1, 3],
    "metrics": ["mrr"],
    "statistics": {"resamples": 100},
    "measurements": {"latency_sample": 0},
}


def reply(text: str) -> str:
    return json.dumps(["a ferry in a storm"])


def tiny(folder: Path, config: dict[str, object]) -> Tiny:
    return Tiny(folder, {"name": "tiny", **HEAD, **config}).write()


@pytest.fixture
def reranked(server: Server, tmp_path: Path) -> Tiny:
    api = {"type": "rerank_api", "input": "bm25", "base_url": server.root, "model": "tiny"}
    retrievers = {"bm25": {"type": "bm25"}, "api": {**api, "retries": 0}}
    return tiny(tmp_path, {"retrievers": retrievers})


@pytest.fixture
def rewritten(server: Server, tmp_path: Path) -> Tiny:
    llm = {"model": "tiny", "base_url": server.base_url, "api_key_env": None, "retries": 0}
    return tiny(
        tmp_path,
        {
            "llm": llm,
            "query_sets": {"more": {"strategy": "multi_query"}},
            "retrievers": {"bm25": {"type": "bm25", "query_set": "more"}},
        },
    )


def cell(one: Tiny, retriever: str, top_k: int = 3) -> Artifact:
    pipeline = one.pipeline()
    return pipeline.artifact(run_key(pipeline.experiment, retriever, top_k))


def failures(one: Tiny, retriever: str, top_k: int = 3) -> set[str]:
    return set(cell(one, retriever, top_k).manifest.failures)


def test_a_reranker_that_was_not_served_is_asked_again(reranked: Tiny, server: Server) -> None:
    server.on("dog", error(400, "too long"))
    reranked.run()
    assert failures(reranked, "api") == {"q1"}
    assert not reranked.snapshot().complete
    old = cell(reranked, "api")
    content = old.file.read_bytes()
    # Without a word it stays as it is: an evaluation that changes nothing asks nobody.
    server.forget_rules()
    asked = len(server.received)
    assert reranked.run() == set()
    pipeline = reranked.pipeline()
    assert {short(key): n for key, n in unanswered(pipeline).items()} == {"reranked_runs/api/1": 1}
    # The first attempt fails again.
    server.on("dog", error(400, "too long"))
    assert try_again(pipeline) == 1
    materialize(pipeline)
    assert failures(reranked, "api") == {"q1"}
    server.forget_rules()
    assert try_again(pipeline) == 1
    computed = materialize(pipeline)
    assert len(server.received) == asked + 2
    assert failures(reranked, "api") == failures(reranked, "api", 1) == set()
    assert {"reranked_runs/api/1", "metrics/api/3"} <= computed
    assert not any("bm25" in name for name in computed if name.startswith("lexical"))
    assert reranked.snapshot().complete
    assert old.file.read_bytes() == content  # old evaluations name it
    pipeline = reranked.pipeline()
    assert try_again(pipeline) == 0
    assert materialize(pipeline) == set()


def test_a_query_set_asks_for_what_was_not_answered(rewritten: Tiny, server: Server) -> None:
    server.on("dog", error(400, "too long"))
    server.on("oil", refuses("I won't."))
    rewritten.run()
    assert failures(rewritten, "bm25") == {"q1", "q6"}
    server.forget_rules()
    asked = len(server.received)
    pipeline = rewritten.pipeline()
    assert list(unanswered(pipeline).values()) == [1]
    try_again(pipeline)
    materialize(pipeline)
    # A refusal is an answer: it is kept, and nobody is asked for another.
    assert len(server.received) == asked + 1
    assert failures(rewritten, "bm25") == {"q6"}
    assert unanswered(rewritten.pipeline()) == {}


@pytest.mark.parametrize("config", ["reranked", "rewritten"])
def test_another_experiment_is_told_too_and_asks_again_when_it_is_said(
    config: str, request: pytest.FixtureRequest, server: Server
) -> None:
    one: Tiny = request.getfixturevalue(config)
    server.on("dog", error(400, "too long"))
    one.run()
    asked = len(server.received)
    other = Tiny(one.root.parent / "other", {**one.config, "name": "other"}).write()
    pipeline = Pipeline(load_experiment(other.folder), one.settings)
    materialize(pipeline)
    assert len(server.received) == asked
    assert failed_queries(pipeline) != {}
    assert try_again(pipeline) == 1  # in vain
    materialize(pipeline)
    server.forget_rules()
    # The first one passes over what the other one was left without, and finds an answer.
    asked = len(server.received)
    again = one.pipeline()
    assert try_again(again) == 1
    materialize(again)
    assert failed_queries(again) == {}
    assert len(server.received) == asked + 1
