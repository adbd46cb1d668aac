"""Checks as Dagster sees them: of one partition, of a range, of the driver."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from rag_assets.assets.instance import open_instance
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import definitions, evaluate_now, run_as_ui
from tests.tiny_experiment import Tiny, damage, drop_query

BAD = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)


def history(tiny: Tiny, asset: str, check: str) -> Sequence[AssetCheckExecutionRecord]:
    """Return what was told of a check, the latest first."""
    key = dg.AssetCheckKey(dg.AssetKey(["tiny", asset]), check)
    with open_instance(tiny.settings) as instance:
        return instance.event_log_storage.get_asset_check_execution_history(key, limit=1000)


def told(tiny: Tiny, asset: str, check: str) -> dict[str | None, tuple[str, bool]]:
    """Return the latest status of a check by partition, and whether it has a result."""
    found: dict[str | None, tuple[str, bool]] = {}
    for row in history(tiny, asset, check):
        found.setdefault(row.partition, (row.status.value, row.evaluation is not None))
    return found


def test_the_driver_tells_a_result_for_each_partition(tiny: Tiny) -> None:
    cells = {f"{name}|{k}" for name in ("bm25", "bm25-whole", "okapi") for k in (1, 3, 5)}
    done = dict.fromkeys(cells, ("SUCCEEDED", True))
    assert told(tiny, "lexical_runs", "queries_answered") == done
    assert told(tiny, "qrels", "label_health") == {None: ("SUCCEEDED", True)}


def test_what_was_not_looked_at_has_no_result_and_later_a_warning(tiny: Tiny) -> None:
    """Without an anchor nobody asked; with one, four queries are too few."""
    assert told(tiny, "lexical_runs", "drift") == {}
    assert run_as_ui(tiny, ["lexical_runs"], partition="bm25|3").success, "planned, and left out"
    # Dagster shows a planned check without a result as skipped once the run has ended.
    assert told(tiny, "lexical_runs", "drift") == {"bm25|3": ("PLANNED", True)}
    EvaluationNames(tiny.settings, tiny.artifacts.name).pin("latest")
    tiny.configure("bm25", k1=0.5)
    evaluate_now(tiny)
    assert told(tiny, "lexical_runs", "drift")["bm25|3"] == ("FAILED", True)
    row = history(tiny, "lexical_runs", "drift")[0]
    assert row.evaluation is not None
    assert row.evaluation.severity is dg.AssetCheckSeverity.WARN
    assert str(row.evaluation.description).startswith("Not checked: ")
    assert "problems" not in row.evaluation.metadata


def test_partitions_of_a_check_are_those_of_its_asset(tiny: Tiny) -> None:
    graph = definitions(tiny).resolve_asset_graph()
    checks = {key.name: graph.get(key) for key in graph.asset_check_keys}
    assert len(checks) == 5
    for key in graph.asset_check_keys:
        assert graph.get(key).partitions_def == graph.get(key.asset_key).partitions_def
    assert not any(check.blocking for check in checks.values())


def test_what_is_not_wanted_of_a_range_keeps_its_result(tiny: Tiny) -> None:
    """Two cells in opposite corners: the range of the run holds others between them."""
    tiny.configure("bm25", k1=0.5)
    evaluate_now(tiny, ["bm25"], [1])
    evaluate_now(tiny)
    assert set(told(tiny, "lexical_runs", "queries_answered").values()) == {("SUCCEEDED", True)}


def test_several_problems_are_a_list(tiny: Tiny) -> None:
    damage(tiny, BAD, drop_query("q2"))
    damage(tiny, BAD, drop_query("q5"))
    run_as_ui(tiny, ["lexical_runs"], partition="bm25|3")
    row = history(tiny, "lexical_runs", "queries_answered")[0]
    assert row.evaluation is not None
    assert row.evaluation.description == (
        "- query 'q2': nothing was retrieved\n- query 'q5': nothing was retrieved"
    )


def test_another_baseline_is_checked_though_nothing_is_computed(tiny: Tiny) -> None:
    def times() -> int:
        return len(history(tiny, "comparisons", "no_regression"))

    before = times()
    evaluate_now(tiny)
    assert times() == before
    tiny.config["baseline"] = "okapi"
    tiny.write_config()
    assert evaluate_now(tiny).computed == 0
    assert times() == before + 1
    tiny.config["checks"] = {"regression": "error"}
    tiny.write_config()
    evaluate_now(tiny)
    assert times() == before + 2
