"""Runs that the Dagster UI or a schedule starts: no tags of ours, a new pipeline each."""

from __future__ import annotations

import re
import shutil

import pytest

from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.store.artifacts import ArtifactKey
from tests.dagster_state import (
    counts,
    definitions,
    evaluate_now,
    latest,
    materializations,
    not_fresh,
    run_as_ui,
    statuses,
)
from tests.tiny_experiment import Tiny, matching

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


def test_a_range_is_reported_partition_by_partition(tiny: Tiny) -> None:
    tiny.lose("relevant_units", "okapi")
    assert run_as_ui(tiny, ["relevant_units"], between=("bm25-whole", "hybrid")).success
    reused = {
        name: latest(tiny, relevant_units_key(name)).metadata["reused"].value
        for name in ("bm25-whole", "okapi", "hybrid")
    }
    assert reused == {"bm25-whole": True, "okapi": False, "hybrid": True}
    assert not_fresh(tiny) == {}


def test_a_range_of_cells_is_their_cross_product(tiny: Tiny) -> None:
    before = counts(tiny)
    result = run_as_ui(tiny, ["lexical_runs"], between=("bm25|3", "bm25-whole|5"))
    assert result.success
    told = {name for name, n in counts(tiny).items() if n > before[name]}
    assert told == matching(tiny.pipeline(), "lexical_runs/bm25*/[35]")
    assert not_fresh(tiny) == {}


@pytest.mark.slow
def test_everything_can_be_started_from_the_ui(fresh: Tiny) -> None:
    """Stage by stage, as a backfill does; then `evaluate` finds nothing to compute."""
    graph = definitions(fresh).resolve_asset_graph()
    for stage in fresh.pipeline().stages():
        partitions = graph.get(
            next(k for k in graph.get_all_asset_keys() if k.path[-1] == stage.name)
        ).partitions_def
        keys = list(map(str, partitions.get_partition_keys())) if partitions else []
        between = (keys[0], keys[-1]) if len(keys) > 1 else None
        partition = keys[0] if len(keys) == 1 else None
        assert run_as_ui(fresh, [stage.name], partition=partition, between=between).success
    assert not_fresh(fresh) == {}
    work = evaluate_now(fresh)
    assert (work.computed, work.evaluation.dagster_runs) == (0, ())


def test_a_changed_cell_makes_what_depends_on_it_stale(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    assert run_as_ui(tiny, ["lexical_index"], partition="bm25").success
    stale = set(not_fresh(tiny))
    assert stale >= matching(tiny.pipeline(), "lexical_runs/bm25/*")
    assert not stale & matching(tiny.pipeline(), "*/okapi*", "*/bm25-whole*")
    evaluate_now(tiny)
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
