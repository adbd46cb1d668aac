"""How a backfill is cut into runs is chosen by a variable."""

from __future__ import annotations

import dagster as dg
import pytest

from rag_assets.assets.build import VARIABLE, build_assets
from rag_assets.errors import UsageError
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import evaluate_now, n_runs, not_fresh, run_as_ui
from tests.tiny_experiment import Tiny


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (None, dg.BackfillPolicy.single_run()),
        ("", dg.BackfillPolicy.single_run()),
        ("single_run", dg.BackfillPolicy.single_run()),
        ("multi_run", dg.BackfillPolicy.multi_run(1)),
        ("multi_run(1)", dg.BackfillPolicy.multi_run(1)),
        ("multi_run(12)", dg.BackfillPolicy.multi_run(12)),
    ],
)
def test_all_assets_with_partitions_have_the_policy(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch, text: str | None, policy: dg.BackfillPolicy
) -> None:
    if text is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, text)
    for asset in build_assets(fresh.pipeline().experiment, fresh.pipeline):
        expected = None if asset.partitions_def is None else policy
        assert asset.backfill_policy == expected


@pytest.mark.parametrize("text", ["many", "multi_run(0)", "multi_run(-1)", "multi_run(1.5)", "1"])
def test_what_is_no_policy_is_refused(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UsageError, match=f"{VARIABLE} must be single_run, multi_run or multi_run"):
        build_assets(fresh.pipeline().experiment, fresh.pipeline)


def test_evaluate_still_takes_one_run(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "multi_run")
    tiny.configure("hybrid", k=5)
    before = n_runs(tiny)
    work = evaluate_now(tiny)
    assert n_runs(tiny) - before == len(work.evaluation.dagster_runs) == 1
    assert not_fresh(tiny) == {}


def test_a_run_of_one_partition_needs_no_range(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "multi_run")
    tiny.configure("hybrid", k=5)
    assert run_as_ui(tiny, ["fused_runs"], partition="hybrid|3").success
    assert tiny.pipeline().current(ArtifactKey.of("fused_runs", retriever="hybrid", top_k=3))
    assert not any(name == "fused_runs/hybrid/3" for name in not_fresh(tiny))
