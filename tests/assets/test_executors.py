"""What runs the steps is chosen; partitions that several processes make at a time are right."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest

from rag_assets.assets.execution import EXECUTOR, executor_of
from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.errors import UsageError
from rag_assets.pipeline.registry import register
from tests.dagster_backfill import COMMAND
from tests.dagster_state import counts, evaluate_now, materializations, not_fresh
from tests.tiny_experiment import Tiny, matching

AFTER_LEXICAL = ("lexical_index", "lexical_runs", "fused_runs", "metrics")
"""What is computed again when a lexical retriever is configured anew, in one line of the graph."""


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
    monkeypatch.delenv(EXECUTOR, raising=False)
    assert definitions_of(experiment, fresh.settings).executor is None
    monkeypatch.setenv(EXECUTOR, "multiprocess(2)")
    assert definitions_of(experiment, fresh.settings).executor is executor_of("multiprocess(2)")
    given = definitions_of(experiment, fresh.settings, executor_of("in_process"))
    assert given.executor is dg.in_process_executor


@pytest.mark.parametrize(
    "text", ["many", "multiprocess(0)", "multiprocess(-1)", "in_process(2)", "dagster:", "4"]
)
def test_what_is_no_executor_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTOR, text)
    with pytest.raises(UsageError, match=f"^{EXECUTOR} must be in_process, multiprocess, multipr"):
        executor_of(None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no_such_module:x", "cannot be imported: No module named 'no_such_module'"),
        ("dagster:no_such_executor", "cannot be imported: .* no attribute 'no_such_executor'"),
        ("dagster:asset", "is not an executor, it is function"),
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


def backfilled(tiny: Tiny, executor: str, assets: Sequence[str], command: Sequence[str]) -> None:
    """Materialize assets by a backfill with a run for each partition, several at a time."""
    register(tiny.pipeline().experiment, tiny.settings)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "RAG_ASSETS_STORE": str(tiny.settings.store),
        "RAG_ASSETS_BACKFILL": "multi_run",
        EXECUTOR: executor,
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
    tiny: Tiny, executor: str, retrievers: Sequence[str], command: Sequence[str] = COMMAND
) -> None:
    """Change retrievers, let a backfill compute what depends on them, compare with `evaluate`."""
    evaluate_now(tiny)
    for name in retrievers:
        tiny.configure(name, k1=0.4)
    other = tiny.copy_to(tiny.root.with_name("other"))
    before = counts(tiny)
    used = {stage.name for stage in tiny.pipeline().stages()}
    assets = [name for name in AFTER_LEXICAL if name in used]
    backfilled(tiny, executor, assets, command)
    told = matching(tiny.pipeline(), *(f"{asset}/*" for asset in assets))
    assert counts(tiny) - before == dict.fromkeys(told, 1)
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
def test_a_backfill_with_several_runs_and_processes_at_a_time(fresh: Tiny) -> None:
    chosen = ("bm25", "bm25-whole", "hybrid")
    fresh.config["retrievers"] = {name: fresh.config["retrievers"][name] for name in chosen}
    fresh.config["top_k"] = [5]
    fresh.write_config()
    assert_computed_once_and_right(fresh, "multiprocess(4)", ["bm25", "bm25-whole"])
