"""What a server did not answer is asked for again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.experiment import load_experiment
from rag_assets.pipeline.failed_queries import failed_queries, try_again, unanswered
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import Artifact
from tests.llm.server import Server, error, refuses, serving
from tests.tiny_experiment import Tiny, materialize, short

HEAD = {
    "dataset": {"format": "markdown"},
    "chunking": {"whole": {"strategy": "none"}},
    "top_k": [1, 3],
    "metrics": ["mrr"],
    "statistics": {"resamples": 100},
    "measurements": {"latency_sample": 0},
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda prompt: json.dumps(["a ferry in a storm"])) as running:
        yield running


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
def test_another_experiment_asks_for_itself_what_was_not_answered(
    config: str, request: pytest.FixtureRequest, server: Server
) -> None:
    one: Tiny = request.getfixturevalue(config)
    server.on("dog", error(400, "too long"))
    one.run()
    server.forget_rules()
    asked = len(server.received)
    other = Tiny(one.root.parent / "other", {**one.config, "name": "other"}).write()
    pipeline = Pipeline(load_experiment(other.folder), one.settings)
    computed = materialize(pipeline)
    assert len(server.received) == asked + 1
    assert failed_queries(pipeline) == {}
    assert not any(name.startswith(("chunks", "lexical_index")) for name in computed)
    # The first experiment stays as it is until it asks again, and then finds what there is.
    assert one.run() == set()
    again = one.pipeline()
    assert failed_queries(again) != {}
    assert try_again(again) > 0
    materialize(again)
    assert failed_queries(again) == {}
    assert len(server.received) == asked + 1
