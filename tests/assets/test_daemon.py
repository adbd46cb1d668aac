"""A real daemon and its code server, and instances in a real Postgres."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus

from rag_assets.assets.instance import open_instance
from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.pipeline.evaluations import Evaluation, read_current
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings
from tests.background import free_port
from tests.dagster_daemon import daemon, daemon_environment, dagster, page_file, services
from tests.dagster_state import counts, evaluate_now, n_runs, not_fresh
from tests.postgres_server import PASSWORD, postgres
from tests.tiny_experiment import Tiny, matching

UNENDED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


def current(tiny: Tiny) -> Evaluation | None:
    try:
        return read_current(tiny.artifacts)
    except NotEvaluated:
        return None


def another(tiny: Tiny, before: Evaluation | None) -> bool:
    """Whether there is another evaluation, and the run that made it has ended."""
    with open_instance(tiny.settings) as instance:
        unended = instance.get_runs_count(dg.RunsFilter(statuses=UNENDED))
    return current(tiny) != before and not unended


def ticks(tiny: Tiny) -> list[InstigatorTick]:
    with open_instance(tiny.settings) as instance:
        return [
            tick
            for state in instance.all_instigator_state()
            for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=20)
        ]


def skipped_since(tiny: Tiny, moment: float) -> bool:
    return any(
        tick.timestamp > moment
        and tick.status is TickStatus.SKIPPED
        and "nothing changed since" in str(tick.skip_reason)
        for tick in ticks(tiny)
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_edit_computes_what_depends_on_it_and_a_touch_nothing(small: Tiny) -> None:
    with daemon(small) as running:
        dagster(small, "sensor", "start", "tiny_sources")
        running.wait("the first look", lambda: another(small, None))
        first = current(small)
        assert first is not None
        everything = matching(small.pipeline(), "*")
        assert (first.trigger, first.computed) == ("sensor", len(everything))
        assert counts(small) == dict.fromkeys(everything, 1)
        runs = n_runs(small)
        for file in small.folder.rglob("*.*"):
            file.touch()
        moment = time.time()
        running.wait("a tick that skips", lambda: skipped_since(small, moment))
        assert (n_runs(small), current(small)) == (runs, first)
        small.replace("fares.md", "travel free of charge", "pay nothing")
        running.wait("the evaluation of the edit", lambda: another(small, first))
    second = current(small)
    assert second is not None
    of_queries = matching(
        small.pipeline(), "queries", "query_facts", "query_sets/*", "lexical_queries/*"
    )
    told = {name for name, n in counts(small).items() if n == 2}
    assert told == everything - of_queries
    assert (second.trigger, second.computed) == ("sensor", len(told))
    assert not_fresh(small) == {}


LAUNCH = """
mutation Launch($parameters: ExecutionParams!) {
  launchRun(executionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
RUNS = "{ runsOrError { ... on Runs { results { runId parentRunId status } } } }"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with postgres() as port:
        yield port


def query(port: int, statement: str) -> list[tuple[object, ...]]:
    import psycopg2

    login = {"host": "127.0.0.1", "port": port, "user": "dagster", "password": PASSWORD}
    connection = psycopg2.connect(**login, dbname="postgres")
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


@pytest.fixture
def deployed(
    small: Tiny, port: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Tiny:
    """The experiment with a DAGSTER_HOME as docs/deployment.md has it, and an empty database."""
    database = f"of_{abs(hash(request.node.name))}"
    query(port, f"CREATE DATABASE {database}")
    text = page_file("deploy/dagster.yaml").replace("5432", str(port))
    small.settings.dagster_home.mkdir(parents=True)
    file = small.settings.dagster_home / "dagster.yaml"
    file.write_text(text.replace("db_name: dagster", f"db_name: {database}"), encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(small.settings.dagster_home))
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", PASSWORD)
    return small


def test_a_server_that_is_not_there_is_one_line(
    deployed: Tiny, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = deployed.settings.dagster_home / "dagster.yaml"
    file.write_text(file.read_text().replace(str(port), str(free_port())), encoding="utf-8")
    # Dagster asks again and again, later and later, for eleven seconds.
    monkeypatch.setattr("dagster_postgres.utils.time", SimpleNamespace(sleep=lambda seconds: None))
    with pytest.raises(StoreError, match=r"^cannot write .*: connection to server .* refused") as e:
        evaluate_now(deployed)
    assert "\n" not in str(e.value)
    assert PASSWORD not in str(e.value)


def worker_of(instance: dg.DagsterInstance, run_id: str) -> int | None:
    """Return the process that a run is in, once it has begun."""
    events = [entry.dagster_event for entry in instance.all_logs(run_id)]
    told = [event.message or "" for event in events if event]
    found = re.search(r"Executing steps in process \(pid: (\d+)\)", "\n".join(told))
    return int(found[1]) if found else None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_run_is_taken_up_by_another(deployed: Tiny, tmp_path: Path) -> None:
    """Launched through the webserver, queued by the daemon, run by the code server.

    Their events are in Postgres alone.
    """
    environ = {
        **daemon_environment(deployed),
        "DAGSTER_EVENT_LOG_CONSUMER_DAEMON_INTERVAL_SECONDS": "1",
    }
    selector = {
        "repositoryLocationName": "rag_assets",
        "repositoryName": "__repository__",
        "jobName": "tiny_evaluate",
    }
    everything = matching(deployed.pipeline(), "*")
    index = ArtifactKey.of("lexical_index", retriever="bm25")
    elsewhere = Pipeline(deployed.pipeline().experiment, StoreSettings.resolve(tmp_path / "other"))
    for asset in ("documents", "chunks", "term_counts"):
        elsewhere.materialize(asset, STAGES[asset].keys(elsewhere.experiment))
    recipe = elsewhere.recipe(index)
    assert recipe is not None
    with (
        open_instance(deployed.settings) as instance,
        services(deployed.root, page_file("deploy/workspace.yaml"), environ) as running,
    ):
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        with deployed.pipeline().store.lock(
            index.asset, [recipe.fingerprint]
        ):  # the run comes as far as this
            launched = running.ask(LAUNCH, parameters={"selector": selector})["launchRun"]
            assert launched["__typename"] == "LaunchRunSuccess", launched
            run_id = launched["run"]["runId"]
            running.wait("the run", lambda: worker_of(instance, run_id))
            chunks = ArtifactKey.of("chunks", chunking="parts")
            running.wait("the chunks", lambda: deployed.pipeline().current(chunks))
            worker = worker_of(instance, run_id)
            assert worker is not None
            os.kill(worker, signal.SIGKILL)
        running.wait("the evaluation", lambda: current(deployed))

        def ended() -> list[tuple[str | None, str]]:
            runs = running.ask(RUNS)["runsOrError"]["results"]
            jobs = [run for run in runs if run["runId"] == run_id or run["parentRunId"] == run_id]
            found = sorted((run["parentRunId"] or "", run["status"]) for run in jobs)
            return found if found[-1][1] == "SUCCESS" else []

        running.wait("the end of the second run", ended)
        assert ended() == [("", "FAILURE"), (run_id, "SUCCESS")]
    done = current(deployed)
    assert done is not None
    assert 0 < done.computed < len(everything)
    assert done.trigger == "ui"
    assert not_fresh(deployed) == {}
    assert evaluate_now(deployed).evaluation.dagster_runs == ()
    assert list(deployed.root.rglob("*.db")) == []
