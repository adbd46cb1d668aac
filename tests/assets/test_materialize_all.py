"""`Materialize all` of the UI on an empty store, as its page asks for it, against the command line.

The daemon's own iteration is called in this process, without the 30 seconds between two of them;
the code location is a server of its own, as in a deployment.
"""

from __future__ import annotations

import logging
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

from rag_assets.assets.names import artifact_key
from rag_assets.assets.reported_versions import read_keys
from rag_assets.cli import main
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY
from rag_assets.pipeline.registry import register
from rag_assets.pipeline.stages import STAGES
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import evaluate_now, not_fresh
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny, matching, short

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
    """Return an experiment with BM25, vectors from files, and their fusion; nothing is stored."""
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
    """Return the content of every stored object, rankings included."""
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
    """Iterate as the daemon does until the backfill ends."""
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
