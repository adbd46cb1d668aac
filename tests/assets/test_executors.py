"""What runs the steps is chosen; partitions that several processes make at a time are right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from rag_assets.assets.executors import VARIABLE, executor_of
from rag_assets.assets.whole import definitions_of
from rag_assets.errors import UsageError
from rag_assets.pipeline.registry import register
from tests.dagster_state import counts, evaluate_now, materializations, not_fresh
from tests.tiny_experiment import Tiny, matching


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("in_process", "in_process"),
        ("multiprocess", "multiprocess"),
        ("multiprocess(4)", "multiprocess"),
        ("dagster:multi_or_in_process_executor", "multi_or_in_process_executor"),
    ],
)
def test_a_text_names_an_executor(text: str, name: str) -> None:
    found = executor_of(text)
    assert found is not None
    assert found.name == name
    assert executor_of(text) is found


def test_the_variable_goes_for_all_but_a_given_one(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = fresh.pipeline().experiment
    monkeypatch.delenv(VARIABLE, raising=False)
    assert definitions_of(experiment, fresh.settings).executor is None
    monkeypatch.setenv(VARIABLE, "multiprocess(2)")
    assert definitions_of(experiment, fresh.settings).executor is executor_of("multiprocess(2)")
    given = definitions_of(experiment, fresh.settings, executor_of("in_process"))
    assert given.executor is dg.in_process_executor


@pytest.mark.parametrize(
    "text", ["many", "multiprocess(0)", "multiprocess(-1)", "in_process(2)", "dagster:", "4"]
)
def test_what_is_no_executor_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UsageError, match=f"^{VARIABLE} must be in_process, multiprocess, multipr"):
        executor_of(None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no_such_module:x", "cannot be imported: No module named 'no_such_module'"),
        ("dagster:no_such_executor", "cannot be imported: .* no attribute 'no_such_executor'"),
        ("dagster:asset", "is no executor, it is function"),
    ],
)
def test_what_a_module_does_not_have_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"^`executor`: '{text}' {problem}"):
        executor_of(text, where="`executor`")


def digests(tiny: Tiny) -> dict[str, str]:
    """Return partition -> digest of all that is up to date; an artifact's bytes follow from it."""
    pipeline = tiny.pipeline()
    keys = [key for stage in pipeline.stages() for key in stage.keys(pipeline.experiment)]
    return {str(key): pipeline.artifact(key).manifest.digests["all"] for key in keys}


def backfilled(tiny: Tiny, executor: str) -> None:
    """Materialize all assets by a backfill with a run for each partition, several at a time."""
    register(tiny.pipeline().experiment, tiny.settings)
    tiny.settings.dagster_home.mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "RAG_ASSETS_STORE": str(tiny.settings.store),
        "RAG_ASSETS_BACKFILL": "multi_run",
        VARIABLE: executor,
        "DAGSTER_HOME": str(tiny.settings.dagster_home),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.dagster_backfill"],
        cwd=tiny.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert "locked" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_backfill_with_several_runs_and_processes_at_a_time(fresh: Tiny, tmp_path: Path) -> None:
    chosen = ("bm25", "bm25-whole", "hybrid")
    fresh.config["retrievers"] = {name: fresh.config["retrievers"][name] for name in chosen}
    fresh.config["top_k"] = [5]
    fresh.write_config()
    other = fresh.copy_to(tmp_path / "other")
    backfilled(fresh, "multiprocess(4)")
    everything = matching(fresh.pipeline(), "*")
    assert counts(fresh) == dict.fromkeys(everything, 1)
    reused = [
        (stage.name, event.partition)
        for stage in fresh.pipeline().stages()
        for event in materializations(fresh, stage.name)
        if event.metadata["reused"].value
    ]
    assert reused == []
    assert not_fresh(fresh) == {}
    assert evaluate_now(fresh).computed == 0
    assert evaluate_now(other).computed == len(everything)
    assert digests(fresh) == digests(other)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_backfill_on_a_dask_cluster(small: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are computed by workers that share nothing with the processes of the runs."""
    pytest.importorskip("dagster_dask", reason="needs dagster-dask (extra `dask`)")
    from distributed import LocalCluster

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("RAG_ASSETS_STORE", str(small.settings.store))
    monkeypatch.setenv("RAG_ASSETS_BACKFILL", "multi_run")
    other = small.copy_to(small.root.with_name("other"))
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **options) as cluster:  # type: ignore[no-untyped-call]
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address)
        backfilled(small, "tests.dask_executor:on_cluster")
    everything = matching(small.pipeline(), "*")
    assert counts(small) == dict.fromkeys(everything, 1)
    assert not_fresh(small) == {}
    assert (evaluate_now(small).computed, evaluate_now(other).computed) == (0, len(everything))
    assert digests(small) == digests(other)
