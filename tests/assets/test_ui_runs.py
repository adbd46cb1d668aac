"""Runs that the Dagster UI, a schedule or a notebook starts."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from click.testing import CliRunner
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION
from dagster_graphql.test.utils import execute_dagster_graphql

from rag_assets.assets.evaluate import as_in_a_script
from rag_assets.assets.names import artifact_key
from rag_assets.assets.reported_versions import read_keys
from rag_assets.cli import main
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY, metrics_key
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.pipeline.evaluation_names import register
from rag_assets.pipeline.stages import STAGES
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import (
    counts,
    evaluate_now,
    latest,
    materializations,
    not_fresh,
    run_as_ui,
    statuses,
)
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny, matching, short

TOP_K = (1, 3, 5)


def test_a_partition_that_is_up_to_date_is_reported_as_reused(tiny: Tiny) -> None:
    result = run_as_ui(tiny, ["metrics"], partition="bm25|3")
    assert result.success
    assert counts(tiny)["metrics/bm25/3"] == 2
    event = latest(tiny, metrics_key("bm25", 3))
    assert event.metadata["reused"].value is True
    first = [e for e in materializations(tiny, "metrics") if e.partition == "bm25|3"][-1]
    version = "dagster/data_version"
    assert (event.tags or {})[version] == (first.tags or {})[version]
    # Same version: nothing below became stale.
    assert not_fresh(tiny) == {}


def test_a_partition_that_is_missing_is_computed(tiny: Tiny) -> None:
    tiny.lose("metrics", "bm25", 3)
    assert run_as_ui(tiny, ["metrics"], partition="bm25|3").success
    event = latest(tiny, metrics_key("bm25", 3))
    assert event.metadata["reused"].value is False
    assert isinstance(event.metadata["ndcg"].value, float)
    assert not_fresh(tiny) == {}
    assert evaluate_now(tiny).evaluation.dagster_runs == ()


def test_ranges_are_reported_partition_by_partition(tiny: Tiny) -> None:
    tiny.lose("relevant_units", "okapi")
    assert run_as_ui(tiny, ["relevant_units"], between=("bm25-whole", "hybrid")).success
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
    found = statuses(fresh)
    assert {found[name] for name in ("documents", "queries", "qrels")} == {"FRESH"}


def test_assets_that_share_their_partitions_run_together(tiny: Tiny) -> None:
    """A range over two assets; nothing is skipped.

    They do not depend on each other: with an asset between them that is not selected, Dagster would
    order them by name.
    """
    shutil.rmtree(tiny.objects("intervals"))
    shutil.rmtree(tiny.objects("metrics_summary"))
    result = run_as_ui(tiny, ["intervals", "metrics_summary"], between=("bm25", "shallow"))
    assert result.success
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


def written(root: Path) -> Tiny:
    tiny = Tiny(root)
    vectors = {
        "chunk_vectors": "../chunks.npy",
        "chunk_ids": "../chunks.txt",
        "query_vectors": "../queries.npy",
        "query_ids": "../queries.txt",
    }
    tiny.config["chunking"] = {"whole": {"strategy": "none"}}
    tiny.config["retrievers"] = {
        "bm25": {"type": "bm25", "chunking": "whole", "analyzer": "english"},
        "vectors": {"type": "vectors", "chunking": "whole", **vectors},
        "hybrid": {"type": "rrf", "inputs": ["bm25", "vectors"], "candidates": 5},
    }
    tiny.config |= {"top_k": [1, 3], "primary": "ndcg@3"}
    tiny.config["measurements"] = {"latency_sample": 0}
    names = {"chunks": list(DOCUMENTS), "queries": [str(row["query_id"]) for row in QUERIES]}
    root.mkdir()
    for seed, (name, ids) in enumerate(names.items()):
        made = np.random.default_rng(seed).normal(size=(len(ids), 8)).astype(np.float32)
        np.save(root / f"{name}.npy", made)
        (root / f"{name}.txt").write_text("\n".join(ids), encoding="utf-8")
    return tiny.write()


def artifacts(tiny: Tiny) -> Mapping[str, bytes]:
    assets = {*STAGES, "rankings"}
    files = [file for name in assets for file in tiny.objects(name).rglob("*")]
    root = tiny.settings.store
    return {str(f.relative_to(root)): f.read_bytes() for f in files if f.is_file()}


def ask_for_all(workspace: WorkspaceProcessContext) -> str:
    """Send what the button of the page sends; return the id of the backfill."""
    context = workspace.create_request_context()
    keys = [{"path": list(key.path)} for key in context.asset_graph.get_all_asset_keys()]
    asked = {"tags": [], "assetSelection": keys, "allPartitions": True, "runConfigData": IN_PROCESS}
    variables = {"backfillParams": asked}
    answer = execute_dagster_graphql(context, LAUNCH_PARTITION_BACKFILL_MUTATION, variables)
    found = answer.data["launchPartitionBackfill"]
    assert found["__typename"] == "LaunchBackfillSuccess", found
    return str(found["backfillId"])


def finish(workspace: WorkspaceProcessContext, backfill: str) -> BulkActionStatus:
    logger = logging.getLogger("dagster.test_backfill")
    for _ in range(MOST_ITERATIONS):
        errors = [error for error in execute_backfill_iteration(workspace, logger) if error]
        assert errors == []
        found = workspace.instance.get_backfill(backfill)
        assert found is not None
        if found.status is not BulkActionStatus.REQUESTED:
            return found.status
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
    tiny, other = written(tmp_path / "ui"), written(tmp_path / "cli")
    register(tiny.pipeline().experiment, tiny.settings)
    home = tiny.settings.dagster_home
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(INSTANCE, encoding="utf-8")
    monkeypatch.chdir(tiny.root)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tiny.settings.store))
    location = ModuleTarget("rag_assets.definitions", None, None, "rag_assets")
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        create_test_daemon_workspace_context(location, instance) as workspace,
    ):
        backfill = ask_for_all(workspace)
        assert finish(workspace, backfill) is BulkActionStatus.COMPLETED_SUCCESS
        runs = instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill}))
        made = moments(instance, tiny)
    assert all(run.status is dg.DagsterRunStatus.SUCCESS for run in runs)
    pipeline = tiny.pipeline()
    for key, moment in made.items():
        for parent in read_keys(pipeline.experiment, key):
            assert made[parent] < moment, f"{key} before {parent}"
    assert made[LEADERBOARD_KEY] > made[COMPARISONS_KEY], "who wins is shown with the board"
    assert {short(key) for key in made} == matching(pipeline, "*")
    assert not_fresh(tiny) == {}

    monkeypatch.delenv("RAG_ASSETS_STORE")
    line = ["evaluate", str(other.folder), "--store", str(other.settings.store)]
    assert CliRunner().invoke(main, line).exit_code == 0
    by_ui, by_cli = artifacts(tiny), artifacts(other)
    assert by_ui.keys() == by_cli.keys()
    assert len(by_ui) > len(made)
    assert {name for name in by_ui if by_ui[name] != by_cli[name]} == set()
    work = evaluate_now(tiny)
    assert (work.computed, work.evaluation.dagster_runs) == (0, ())


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


def test_other_warnings_are_shown() -> None:
    with as_in_a_script():
        assert asyncio.run(answer()) == 42
        with pytest.warns(UserWarning, match="mind this"):
            warnings.warn("mind this", stacklevel=1)
