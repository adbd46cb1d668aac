"""Backfills in several processes, and what is tried again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest

from rag_assets.assets.build import build_assets
from rag_assets.assets.execution import (
    MODEL_POOL,
    SERVER_POOL,
)
from rag_assets.assets.job import evaluation_job
from rag_assets.pipeline.evaluation_names import register
from rag_assets.pipeline.evaluations import read_current
from rag_assets.servers.client import MAX_UNSERVED
from tests.assets.asking import KEY_VARIABLE, ask
from tests.dagster_backfill import COMMAND
from tests.dagster_state import (
    QUIET,
    counts,
    evaluate_now,
    materializations,
    not_fresh,
    run_as_ui,
)
from tests.llm import server as replies
from tests.llm.server import Server, serving
from tests.tiny_experiment import MINILM, QUERIES, Tiny, matching

AFTER_LEXICAL = ("lexical_index", "lexical_runs", "fused_runs", "metrics")
"""What is computed again when a lexical retriever is configured anew, in one line of the graph."""


def digests(tiny: Tiny) -> dict[str, str]:
    """Return partition -> digest of all that is up to date; an artifact's bytes follow from it."""
    pipeline = tiny.pipeline()
    keys = [key for stage in pipeline.stages() for key in stage.keys(pipeline.experiment)]
    return {str(key): pipeline.artifact(key).manifest.digests["all"] for key in keys}


def backfilled(tiny: Tiny, assets: Sequence[str], command: Sequence[str]) -> None:
    """Materialize assets by a backfill, each step in a process of its own."""
    register(tiny.pipeline().experiment, tiny.settings)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "RAG_ASSETS_STORE": str(tiny.settings.store),
        "DAGSTER_HOME": str(tiny.settings.dagster_home),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [*command, *assets],
        cwd=tiny.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert "locked" not in done.stderr


def assert_computed_once_and_right(
    tiny: Tiny, retrievers: Sequence[str], command: Sequence[str] = COMMAND
) -> None:
    """Change retrievers, let a backfill compute what depends on them, compare with `evaluate`."""
    evaluate_now(tiny)
    for name in retrievers:
        tiny.configure(name, k1=0.4)
    other = tiny.copy_to(tiny.root.with_name("other"))
    before = counts(tiny)
    used = {stage.name for stage in tiny.pipeline().stages()}
    assets = [name for name in AFTER_LEXICAL if name in used]
    backfilled(tiny, assets, command)
    told = matching(tiny.pipeline(), *(f"{asset}/*" for asset in assets))
    assert set(counts(tiny) - before) == set(told)
    n_computed = 0
    for asset in assets:
        n_told = sum(name.startswith(f"{asset}/") for name in told)
        events = materializations(tiny, asset)[:n_told]
        n_computed += sum(not event.metadata["reused"].value for event in events)
    # Metrics whose ranks came out as they were are reused, here as there.
    assert n_computed >= 2 * len(retrievers)
    rest, everything = evaluate_now(tiny).computed, evaluate_now(other).computed
    assert rest + n_computed == everything
    assert not_fresh(tiny) == {}
    assert digests(tiny) == digests(other)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_backfill_with_a_process_for_each_step(fresh: Tiny) -> None:
    chosen = ("bm25", "bm25-whole", "hybrid")
    fresh.config["retrievers"] = {name: fresh.config["retrievers"][name] for name in chosen}
    fresh.config["top_k"] = [5]
    fresh.write_config()
    assert_computed_once_and_right(fresh, ["bm25", "bm25-whole"])


N_QUERIES = MAX_UNSERVED + 1
"""All are asked together; so many that are not served end the step."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv(KEY_VARIABLE, "sk-1")
    monkeypatch.setattr("rag_assets.assets.execution.RETRY_SECONDS", 1)
    with serving(lambda prompt: json.dumps([f"another question {len(prompt)}"])) as running:
        yield running


@pytest.fixture
def asking(small: Tiny, server: Server) -> Tiny:
    """More queries than a step goes on with."""
    ask(small, server.base_url, concurrency=1)
    more = [{"query_id": f"more{n}", "text": f"further question {n}"} for n in range(N_QUERIES)]
    small.write_rows("queries.jsonl", [*QUERIES, *more[len(QUERIES) :]])
    return small


def ops(tiny: Tiny) -> dict[str, dg.OpDefinition]:
    assets = build_assets(tiny.pipeline().experiment, tiny.settings)
    return {asset.key.path[-1]: asset.op for asset in assets}


def test_only_what_asks_a_server_has_a_policy(asking: Tiny) -> None:
    asking.config["retrievers"]["minilm"] = MINILM["minilm"]
    asking.write_config()
    found = ops(asking)
    policies = {name: op.retry_policy for name, op in found.items() if op.retry_policy}
    expected = dg.RetryPolicy(max_retries=3, delay=1, backoff=dg.Backoff.EXPONENTIAL)
    assert policies == {"query_set_answers": expected}
    pools = {name: op.pool for name, op in found.items() if op.pool}
    assert pools == {
        "query_set_answers": SERVER_POOL,
        "embedding_index": MODEL_POOL,
        "embedding_queries": MODEL_POOL,
    }


def job_of(tiny: Tiny) -> dg.JobDefinition:
    return evaluation_job(tiny.pipeline().experiment, tiny.settings)


def test_an_experiment_without_servers_is_never_tried_again(small: Tiny) -> None:
    assert all(op.retry_policy is None and op.pool is None for op in ops(small).values())
    (node,) = job_of(small).nodes
    assert isinstance(node.definition, dg.OpDefinition)
    assert node.definition.retry_policy is None


def test_a_server_that_is_busy_is_asked_again(asking: Tiny, server: Server) -> None:
    assert run_as_ui(asking, ["queries"]).success
    server.on("", *[replies.error(503, "busy")] * N_QUERIES, replies.says('["a clear question"]'))
    result = run_as_ui(asking, ["query_set_answers"], partition="clear")
    retried = [event for event in result.all_events if event.event_type_value == "STEP_RESTARTED"]
    assert result.success
    assert retried


def test_the_job_goes_on_where_it_was(asking: Tiny, server: Server) -> None:
    server.on("", *[replies.error(503, "busy")] * N_QUERIES, replies.says('["a clear question"]'))
    with dg.DagsterInstance.ephemeral() as instance:
        result = job_of(asking).execute_in_process(
            instance=instance, run_config=QUIET, raise_on_error=False
        )
    assert result.success
    kinds = [event.event_type_value for event in result.all_events]
    assert kinds.count("STEP_RESTARTED") == 1
    assert read_current(asking.artifacts).complete


def test_a_wrong_key_is_not_tried_again(asking: Tiny, server: Server) -> None:
    assert run_as_ui(asking, ["queries"]).success
    server.on("", replies.error(401, "no"))
    result = run_as_ui(asking, ["query_set_answers"], partition="clear")
    assert not result.success
    kinds = [event.event_type_value for event in result.all_events]
    assert "STEP_UP_FOR_RETRY" not in kinds
    assert len(server.received) == 1
