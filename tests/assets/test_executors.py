"""What is tried again, and the pools of what asks a server or a model."""

from __future__ import annotations

import json
from collections.abc import Iterator

import dagster as dg
import pytest

from rag_assets.assets.build import build_assets
from rag_assets.assets.execution import MODEL_POOL, SERVER_POOL
from rag_assets.assets.job import evaluation_job
from rag_assets.pipeline.evaluations import read_current
from rag_assets.servers.client import MAX_UNSERVED
from tests.assets.asking import KEY_VARIABLE, ask
from tests.dagster_state import QUIET, run_as_ui
from tests.llm import server as replies
from tests.llm.server import Server, serving
from tests.tiny_experiment import MINILM, QUERIES, Tiny

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


def test_only_what_asks_a_server_is_tried_again(small: Tiny, server: Server) -> None:
    assert all(op.retry_policy is None and op.pool is None for op in ops(small).values())
    (node,) = job_of(small).nodes
    assert isinstance(node.definition, dg.OpDefinition)
    assert node.definition.retry_policy is None
    asking = ask(small, server.base_url)
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
    assert [event.event_type_value for event in result.all_events].count("STEP_RESTARTED") == 1
    assert read_current(asking.artifacts).complete


def test_a_wrong_key_is_not_tried_again(asking: Tiny, server: Server) -> None:
    assert run_as_ui(asking, ["queries"]).success
    server.on("", replies.error(401, "no"))
    result = run_as_ui(asking, ["query_set_answers"], partition="clear")
    assert not result.success
    assert "STEP_UP_FOR_RETRY" not in [event.event_type_value for event in result.all_events]
    assert len(server.received) == 1
