"""Runs that the Dagster UI, a schedule or a notebook starts."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION
from dagster_graphql.test.utils import execute_dagster_graphql

from rag_assets.assets.evaluate import as_in_a_script
from rag_assets.assets.instance import open_instance
from rag_assets.assets.names import artifact_key
from rag_assets.assets.reported_versions import read_keys
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY, metrics_key
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.pipeline.evaluation_names import register
from rag_assets.pipeline.stages import STAGES
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.artifacts import ArtifactKey
from tests.assets.conftest import lexical
from tests.dagster_state import (
    counts,
    evaluate_now,
    latest,
    materializations,
    not_fresh,
    run_as_ui,
    statuses,
)
from tests.tiny_experiment import Tiny, matching, short

TOP_K = (1, 3, 5)


def test_a_partition_is_reused_where_it_is_up_to_date_and_computed_where_it_is_missing(
    tiny: Tiny,
) -> None:
    assert run_as_ui(tiny, ["metrics"], partition="bm25|3").success
    assert counts(tiny)["metrics/bm25/3"] == 2
    event, first = [e for e in materializations(tiny, "metrics") if e.partition == "bm25|3"]
    assert event.metadata["reused"].value is True
    version = "dagster/data_version"
    assert (event.tags or {})[version] == (first.tags or {})[version]
    # Same version: nothing below became stale.
    assert not_fresh(tiny) == {}
    tiny.lose("metrics", "bm25", 3)
    assert run_as_ui(tiny, ["metrics"], partition="bm25|3").success
    event = latest(tiny, metrics_key("bm25", 3))
    assert event.metadata["reused"].value is False
    assert isinstance(event.metadata["ndcg"].value, float)
    assert not_fresh(tiny) == {}
    assert evaluate_now(tiny).evaluation.dagster_runs == ()


def test_ranges_are_reported_partition_by_partition(tiny: Tiny) -> None:
    tiny.lose("relevant_units", "okapi")
    result = run_as_ui(tiny, ["relevant_units"], between=("bm25-whole", "hybrid"))
    assert result.success
    with open_instance(tiny.settings) as instance:
        said = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert "1 computed, 2 up to date and reused" in said
    reused = {
        name: latest(tiny, relevant_units_key(name)).metadata["reused"].value
        for name in ("bm25-whole", "okapi", "hybrid")
    }
    assert reused == {"bm25-whole": True, "okapi": False, "hybrid": True}
    assert not_fresh(tiny) == {}
    before = counts(tiny)
    result = run_as_ui(tiny, ["lexical_runs"], between=("bm25|3", "bm25-whole|5"))
    assert result.success
    told = {name for name, n in counts(tiny).items() if n > before[name]}
    assert told == matching(tiny.pipeline(), "lexical_runs/bm25*/[35]")
    assert not_fresh(tiny) == {}


@pytest.mark.parametrize(
    ("asset", "partition", "missing"),
    [
        ("chunks", "parts", "documents"),
        ("lexical_runs", "bm25|3", r"lexical_index\[retriever=bm25\]"),
        ("metrics", "hybrid|1", r"fused_runs\[retriever=hybrid, top_k=1\]"),
    ],
)
def test_a_missing_input_fails_with_a_sentence(
    fresh: Tiny, asset: str, partition: str, missing: str
) -> None:
    result = run_as_ui(fresh, [asset], partition=partition)
    assert not result.success
    (failure,) = result.get_step_failure_events()
    data = failure.step_failure_data.user_failure_data
    assert data is not None
    assert data.description is not None
    assert re.match(
        f"{missing} is not in the store .* materialize it first, or run", data.description
    )
    assert counts(fresh) == {}


def test_two_chained_assets_in_one_run_are_both_done(fresh: Tiny) -> None:
    """`documents` and `queries`, then `qrels`, which needs both: all without partitions."""
    assert run_as_ui(fresh, ["documents", "queries", "qrels"]).success
    assert set(counts(fresh)) == {"documents", "queries", "qrels"}
    assert {statuses(fresh)[name] for name in ("documents", "queries", "qrels")} == {"FRESH"}


def test_one_without_partitions_runs_beside_a_partition_of_another(fresh: Tiny) -> None:
    assert run_as_ui(fresh, ["documents", "chunks"], partition="parts").success
    assert counts(fresh) == {"documents": 1, "chunks/parts": 1}


def test_assets_that_share_their_partitions_run_together(tiny: Tiny) -> None:
    """A range over two assets; nothing is skipped.

    They do not depend on each other: with an asset between them that is not selected, Dagster would
    order them by name.
    """
    shutil.rmtree(tiny.objects("intervals"))
    shutil.rmtree(tiny.objects("metrics_summary"))
    assert run_as_ui(tiny, ["intervals", "metrics_summary"], between=("bm25", "shallow")).success
    assert tiny.pipeline().current(ArtifactKey.of("intervals", retriever="shallow"))
    assert tiny.pipeline().current(ArtifactKey.of("metrics_summary", retriever="shallow"))
    assert not_fresh(tiny) == {}


INSTANCE = """
telemetry: {enabled: false}
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
run_launcher:
  module: dagster._core.launcher.sync_in_memory_run_launcher
  class: SyncInMemoryRunLauncher
"""

IN_PROCESS: dict[str, Any] = {"execution": {"config": {"in_process": {}}}}
"""What the page's launchpad may hold; by default each step is a process of its own."""

MOST_ITERATIONS = 60


def artifacts(tiny: Tiny) -> Mapping[str, bytes]:
    assets = {*STAGES, "rankings"}
    files = [file for name in assets for file in tiny.objects(name).rglob("*")]
    return {str(f.relative_to(tiny.settings.store)): f.read_bytes() for f in files if f.is_file()}


@contextmanager
def code_location(tiny: Tiny, patch: pytest.MonkeyPatch) -> Iterator[WorkspaceProcessContext]:
    """Load the code location above an experiment, whose runs this process launches."""
    register(tiny.pipeline().experiment, tiny.settings)
    home = tiny.settings.dagster_home
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(INSTANCE, encoding="utf-8")
    patch.chdir(tiny.root)
    patch.setenv("RAG_ASSETS_STORE", str(tiny.settings.store))
    location = ModuleTarget("rag_assets.definitions", None, None, "rag_assets")
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        create_test_daemon_workspace_context(location, instance) as workspace,
    ):
        yield workspace
    patch.delenv("RAG_ASSETS_STORE")


def backfill(
    workspace: WorkspaceProcessContext, assets: Sequence[str], run_config: Mapping[str, Any]
) -> str:
    """Send what the button of the page sends, and wait; return the id of the backfill."""
    context = workspace.create_request_context()
    keys = [
        {"path": list(key.path)}
        for key in context.asset_graph.get_all_asset_keys()
        if key.path[-1] in assets
    ]
    asked = {"tags": [], "assetSelection": keys, "allPartitions": True, "runConfigData": run_config}
    variables = {"backfillParams": asked}
    answer = execute_dagster_graphql(context, LAUNCH_PARTITION_BACKFILL_MUTATION, variables)
    found = answer.data["launchPartitionBackfill"]
    assert found["__typename"] == "LaunchBackfillSuccess", found
    logger = logging.getLogger("dagster.test_backfill")
    for _ in range(MOST_ITERATIONS):
        assert [error for error in execute_backfill_iteration(workspace, logger) if error] == []
        made = workspace.instance.get_backfill(str(found["backfillId"]))
        assert made is not None
        if made.status is not BulkActionStatus.REQUESTED:
            assert made.status is BulkActionStatus.COMPLETED_SUCCESS
            return made.backfill_id
    pytest.fail(f"not finished after {MOST_ITERATIONS} iterations")


def moments(instance: dg.DagsterInstance, tiny: Tiny) -> dict[ArtifactKey, int]:
    """Return where in the log each partition's first materialization stands."""
    found: dict[ArtifactKey, int] = {}
    for stage in tiny.pipeline().stages():
        records = instance.fetch_materializations(dg.AssetKey(["tiny", stage.name]), limit=500)
        for record in records.records:
            key = artifact_key(stage, record.partition_key)
            found[key] = min(record.storage_id, found.get(key, record.storage_id))
    return found


@pytest.mark.slow
def test_all_is_made_in_order_and_as_the_command_line_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny, other = lexical(tmp_path / "ui"), lexical(tmp_path / "cli")
    with code_location(tiny, monkeypatch) as workspace:
        made_by = backfill(workspace, [*STAGES], IN_PROCESS)
        runs = workspace.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": made_by}))
        made = moments(workspace.instance, tiny)
    assert all(run.status is dg.DagsterRunStatus.SUCCESS for run in runs)
    pipeline = tiny.pipeline()
    for key, moment in made.items():
        for parent in read_keys(pipeline.experiment, key):
            assert made[parent] < moment, f"{key} before {parent}"
    assert made[LEADERBOARD_KEY] > made[COMPARISONS_KEY], "who wins is shown with the board"
    assert {short(key) for key in made} == matching(pipeline, "*")
    assert not_fresh(tiny) == {}
    assert other.command("evaluate", ".").exit_code == 0
    by_ui, by_cli = artifacts(tiny), artifacts(other)
    assert by_ui.keys() == by_cli.keys()
    assert len(by_ui) > len(made)
    assert {name for name in by_ui if by_ui[name] != by_cli[name]} == set()
    work = evaluate_now(tiny)
    assert (work.computed, work.evaluation.dagster_runs) == (0, ())


AFTER_LEXICAL = ("lexical_index", "lexical_runs", "fused_runs", "metrics")
"""What is computed again when a lexical retriever is configured anew, in one line of the graph."""


def digests(tiny: Tiny) -> dict[str, str]:
    """Return partition -> digest of all that is up to date; an artifact's bytes follow from it."""
    pipeline = tiny.pipeline()
    keys = [key for stage in pipeline.stages() for key in stage.keys(pipeline.experiment)]
    return {str(key): pipeline.artifact(key).manifest.digests["all"] for key in keys}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_for_each_step_computes_everything_once_and_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retrievers are changed, and a backfill computes what depends on them, as `evaluate` does."""
    tiny = lexical(tmp_path / "tiny")
    evaluate_now(tiny)
    for name in ("bm25", "bm25-whole"):
        tiny.configure(name, k1=0.4)
    other = tiny.copy_to(tiny.root.with_name("other"))
    before = counts(tiny)
    with code_location(tiny, monkeypatch) as workspace:
        backfill(workspace, AFTER_LEXICAL, {})
    told = matching(tiny.pipeline(), *(f"{asset}/*" for asset in AFTER_LEXICAL))
    assert set(counts(tiny) - before) == set(told)
    n_computed = 0
    for asset in AFTER_LEXICAL:
        n_told = sum(name.startswith(f"{asset}/") for name in told)
        # A run of several partitions tells an event without metadata of each of them before.
        events = [event for event in materializations(tiny, asset) if "reused" in event.metadata]
        n_computed += sum(not event.metadata["reused"].value for event in events[:n_told])
    # Metrics whose ranks came out as they were are reused, here as there.
    assert n_computed >= 4
    rest, everything = evaluate_now(tiny).computed, evaluate_now(other).computed
    assert rest + n_computed == everything
    assert not_fresh(tiny) == {}
    assert digests(tiny) == digests(other)


async def answer() -> int:
    return 42


def test_loops_inside_a_running_one() -> None:
    async def cell() -> tuple[int, bool]:
        running = asyncio.get_running_loop()
        with as_in_a_script():
            found = asyncio.run(answer())
        return found, asyncio.get_running_loop() is running

    assert asyncio.run(cell()) == (42, True)

    async def failing() -> bool:
        running = asyncio.get_running_loop()
        with pytest.raises(KeyboardInterrupt), as_in_a_script():
            raise KeyboardInterrupt
        return asyncio.get_running_loop() is running

    assert asyncio.run(failing())
