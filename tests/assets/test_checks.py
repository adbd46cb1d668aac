"""Checks as Dagster sees them: of one partition, of a range, of the driver."""

from __future__ import annotations

import dagster as dg
import pytest

from rag_assets.assets.instance import open_instance
from rag_assets.errors import CheckFailed, DataError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import (
    counts,
    definitions,
    evaluate_now,
    materializations,
    not_fresh,
    run_as_ui,
)
from tests.tiny_experiment import Tiny, damage, drop_query, set_cell

TOP_K = (1, 3, 5)

BAD = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)
UNKNOWN = set_cell("chunk_id", 0, "gone.md")


def told(tiny: Tiny, asset: str, check: str) -> dict[str | None, tuple[str, bool]]:
    """Return the latest status of a check by partition, and whether it has a result."""
    key = dg.AssetCheckKey(dg.AssetKey(["tiny", asset]), check)
    with open_instance(tiny.settings) as instance:
        rows = instance.event_log_storage.get_asset_check_execution_history(key, limit=1000)
    found: dict[str | None, tuple[str, bool]] = {}
    for row in rows:
        found.setdefault(row.partition, (row.status.value, row.evaluation is not None))
    return found


def test_the_driver_tells_a_result_for_each_partition(tiny: Tiny) -> None:
    cells = {f"{name}|{k}" for name in ("bm25", "bm25-whole", "okapi") for k in (1, 3, 5)}
    assert told(tiny, "lexical_runs", "ids_exist") == dict.fromkeys(cells, ("SUCCEEDED", True))
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
    key = dg.AssetCheckKey(dg.AssetKey(["tiny", "lexical_runs"]), "drift")
    with open_instance(tiny.settings) as instance:
        (row,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert row.evaluation is not None
    assert row.evaluation.severity is dg.AssetCheckSeverity.WARN
    assert str(row.evaluation.description).startswith("Not checked: ")
    assert "problems" not in row.evaluation.metadata


def test_partitions_of_a_check_are_those_of_its_asset(tiny: Tiny) -> None:
    graph = definitions(tiny).resolve_asset_graph()
    checks = {key.name: graph.get(key) for key in graph.asset_check_keys}
    assert len(checks) == 9
    for key in graph.asset_check_keys:
        assert graph.get(key).partitions_def == graph.get(key.asset_key).partitions_def
    assert {name for name, check in checks.items() if check.blocking} == {
        "label_health",
        "ranks_and_scores",
        "ids_exist",
        "metrics_in_bounds",
    }


def test_what_is_not_wanted_of_a_range_keeps_its_result(tiny: Tiny) -> None:
    """Two cells in opposite corners: the range of the run holds others between them."""
    tiny.configure("bm25", k1=0.5)
    evaluate_now(tiny, ["bm25"], [1])
    evaluate_now(tiny)
    found = told(tiny, "lexical_runs", "queries_answered")
    assert set(found.values()) == {("SUCCEEDED", True)}


def test_one_partition_that_fails_fails_its_run(tiny: Tiny) -> None:
    damage(tiny, BAD, UNKNOWN)
    result = run_as_ui(tiny, ["lexical_runs"], partition="bm25|3")
    assert not result.success
    assert told(tiny, "lexical_runs", "ids_exist")["bm25|3"] == ("FAILED", True)
    assert told(tiny, "lexical_runs", "ids_exist")["bm25|5"] == ("SUCCEEDED", True)
    before = counts(tiny)
    assert not run_as_ui(tiny, ["metrics"], partition="bm25|3").success
    assert run_as_ui(tiny, ["metrics"], partition="bm25|5").success
    assert counts(tiny) - before == {"metrics/bm25/5": 1}


def test_several_problems_are_a_list(tiny: Tiny) -> None:
    damage(tiny, BAD, drop_query("q2"))
    damage(tiny, BAD, drop_query("q5"))
    run_as_ui(tiny, ["lexical_runs"], partition="bm25|3")
    key = dg.AssetCheckKey(dg.AssetKey(["tiny", "lexical_runs"]), "queries_answered")
    with open_instance(tiny.settings) as instance:
        (row,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert row.evaluation is not None
    assert row.evaluation.description == (
        "- query 'q2': nothing was retrieved\n- query 'q5': nothing was retrieved"
    )


def test_of_a_range_only_the_children_of_the_failed_one_are_stopped(tiny: Tiny) -> None:
    damage(tiny, BAD, UNKNOWN)
    assert run_as_ui(tiny, ["lexical_runs"], between=("bm25|1", "bm25-whole|5")).success
    found = told(tiny, "lexical_runs", "ids_exist")
    assert [name for name, (status, _) in found.items() if status == "FAILED"] == ["bm25|3"]
    before = counts(tiny)
    result = run_as_ui(tiny, ["metrics"], between=("bm25|1", "bm25-whole|5"))
    (failure,) = result.get_step_failure_events()
    data = failure.step_failure_data.user_failure_data
    assert data is not None
    assert data.description == (
        "metrics[retriever=bm25, top_k=3] was not computed, because "
        "lexical_runs[retriever=bm25, top_k=3] failed a blocking check"
    )
    done = {f"metrics/{name}/{k}" for name in ("bm25", "bm25-whole") for k in (1, 3, 5)}
    assert set(counts(tiny) - before) == done - {"metrics/bm25/3"}


@pytest.mark.slow
@pytest.mark.usefixtures("either_storage")
def test_the_driver_goes_on_with_the_others_and_then_refuses(tiny: Tiny) -> None:
    """The cell is read by its metrics and by `shallow`; `hybrid` fuses the stored ranking."""
    tiny.configure("okapi", k1=2.0)
    before = evaluate_now(tiny).evaluation
    damage(tiny, BAD, UNKNOWN)
    tiny.settings.dagster_home.joinpath("rag_assets", "tiny.json").unlink()
    told_before = counts(tiny)
    with pytest.raises(CheckFailed) as error:
        evaluate_now(tiny)
    assert str(error.value) == (
        "a blocking check failed: lexical_runs[retriever=bm25, top_k=3]: "
        "ids_exist: chunk_id 'gone.md' does not exist"
    )
    told_now = counts(tiny) - told_before
    left_out = {name for name in told_before if name not in told_now}
    assert left_out == {
        "metrics/bm25/3",
        "fused_runs/hybrid/3",
        "fused_runs/shallow/3",
    }
    # What was refused is no state for readers.
    assert (tiny.artifacts / "current").read_text() == before.evaluation_id


def test_all_is_well_again_once_the_file_is_made_anew(tiny: Tiny) -> None:
    damage(tiny, BAD, UNKNOWN)
    assert not run_as_ui(tiny, ["lexical_runs"], partition="bm25|3").success
    with pytest.raises(CheckFailed):
        evaluate_now(tiny)
    tiny.pipeline().artifact(BAD).file.unlink()
    evaluate_now(tiny)
    assert told(tiny, "lexical_runs", "ids_exist")["bm25|3"] == ("SUCCEEDED", True)
    assert not_fresh(tiny) == {}
    assert list((tiny.artifacts / "failed_checks").glob("*")) == []


def test_a_damaged_cell_of_metrics_stops_its_summary_only(tiny: Tiny) -> None:
    damage(tiny, metrics_key("okapi", 3), set_cell("ndcg", 0, 2.0))
    assert not run_as_ui(tiny, ["metrics"], partition="okapi|3").success
    before = counts(tiny)
    result = run_as_ui(tiny, ["metrics_summary"], between=("bm25", "shallow"))
    assert not result.success
    done = set(counts(tiny) - before)
    assert len(done) == 4
    assert "metrics_summary/okapi" not in done


@pytest.mark.parametrize("ui", [True, False])
def test_labels_that_cannot_be_read_are_told_although_there_is_no_table(
    tiny: Tiny, *, ui: bool
) -> None:
    n_before = len(materializations(tiny, "qrels"))
    tiny.replace("judgments.jsonl", "A dog needs a ticket", "A cat needs a ticket")
    if ui:
        assert not run_as_ui(tiny, ["qrels"]).success
    else:
        with pytest.raises(DataError, match=r"judgments\.jsonl:1"):
            evaluate_now(tiny)
    assert told(tiny, "qrels", "label_health") == {None: ("FAILED", True)}
    assert len(materializations(tiny, "qrels")) == n_before


def test_another_baseline_is_checked_though_nothing_is_computed(tiny: Tiny) -> None:
    key = dg.AssetCheckKey(dg.AssetKey(["tiny", "comparisons"]), "no_regression")

    def times() -> int:
        with open_instance(tiny.settings) as instance:
            history = instance.event_log_storage.get_asset_check_execution_history
            return len(history(key, limit=1000))

    evaluate_now(tiny)
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
