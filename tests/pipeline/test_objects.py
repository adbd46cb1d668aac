"""Artifacts are objects by fingerprint: equal work is done once, whatever it is called."""

from __future__ import annotations

import json

import pytest

from rag_assets.pipeline.plan import COMPUTE, REUSE
from rag_assets.pipeline.selection import Selection
from rag_assets.reporting.plan_rows import flat_plan_rows
from rag_assets.reporting.result import EvaluationResult
from tests.planned import planned
from tests.tiny_experiment import Tiny, short


def computed(tiny: Tiny) -> int:
    """How many partitions an evaluation computes."""
    pipeline = tiny.pipeline()
    for asset, keys in Selection.of(pipeline.experiment).keys(pipeline.experiment).items():
        pipeline.materialize(asset, keys)
    return pipeline.n_computed


def test_a_renamed_retriever_is_found_and_keeps_its_latency(tiny: Tiny) -> None:
    before = EvaluationResult.current(tiny.artifacts).milliseconds_per_query()
    kept = tiny.config["retrievers"]
    kept = {"other" if name == "bm25-whole" else name: one for name, one in kept.items()}
    kept["hybrid"] = {**kept["hybrid"], "inputs": ["bm25", "other"]}
    tiny.config["retrievers"] = kept
    tiny.write_config()
    assert computed(tiny) <= 5
    tiny.snapshot()
    after = EvaluationResult.current(tiny.artifacts).milliseconds_per_query()
    assert after["other"] == before["bm25-whole"]
    assert after["hybrid"] == before["hybrid"]


def grid(one: Tiny, size: int) -> Tiny:
    """As many retrievers of one corpus that differ in what comes after its words are counted."""
    kinds: list[dict[str, object]] = [
        {"type": "bm25", "b": 0.5},
        {"type": "bm25", "variant": "bm25plus"},
        {"type": "bm25", "engine": "rank_bm25"},
        {"type": "bm25", "expand": {"type": "rm3"}},
        {"type": "tfidf"},
    ]
    kinds += [{"type": "bm25", "k1": 1 + number / 10} for number in range(size)]
    base = {"chunking": "parts", "analyzer": "english"}
    one.config["retrievers"] = {f"b{n}": base | kind for n, kind in enumerate(kinds[:size])}
    one.config["baseline"] = "b0"
    one.write_config()
    return one


def test_what_a_grid_shares_is_stored_once(one: Tiny) -> None:
    pipeline = grid(one, 6).pipeline()
    wanted = Selection.of(pipeline.experiment).keys(pipeline.experiment)
    n_partitions = sum(map(len, wanted.values()))
    planned_before = planned(one).count(COMPUTE)
    # Judgments, queries and lengths of contexts are the same for all six.
    assert planned_before == n_partitions - 3 * 5
    done = computed(one)
    assert done <= planned_before  # where two find the same, their numbers are one artifact too
    assert planned(one).count(REUSE) == done
    for asset in ("judgments", "lexical_queries", "retriever_contexts", "term_counts"):
        assert len(pipeline.store.names(asset)) == 1, asset
    assert len(pipeline.store.names("lexical_index")) == 6


def test_one_more_of_a_grid_analyses_no_text(one: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    assert computed(grid(one, 5))
    one.snapshot()
    grid(one, 7)
    monkeypatch.setattr("rag_assets.lexical.analysed_texts.analyze_all", None)
    actions = {step.key.asset: step.action for step in planned(one).artifacts}
    assert (actions["term_counts"], actions["lexical_index"]) == (REUSE, COMPUTE)
    assert computed(one) > 0


def test_a_plan_says_which_partition_an_equal_one_is_computed_with(one: Tiny) -> None:
    found = planned(grid(one, 3))
    same = {short(step.key): step.same_as and short(step.same_as) for step in found.steps}
    assert same["judgments/b0"] is None
    assert same["judgments/b1"] == same["judgments/b2"] == "judgments/b0"
    assert same["lexical_index/b1"] is None
    rows = {row["partition"]: row for row in flat_plan_rows(found) if row["asset"] == "judgments"}
    assert rows["retriever=b1"]["same_as"] == "retriever=b0"


def test_no_object_holds_the_name_of_a_retriever(tiny: Tiny) -> None:
    """But where it is in the rows: the leaderboard, and what compares retrievers."""
    named = {"leaderboard", "comparisons", "overlaps", "answerability", "attributions"}
    pipeline = tiny.pipeline()
    for stage in pipeline.stages():
        for key in stage.keys(pipeline.experiment):
            told = json.dumps(pipeline.artifact(key).manifest.facts)
            assert "bm25-whole" not in told, key
            assert str(tiny.root) not in pipeline.artifact(key).manifest.to_json(), key
            if stage.name not in named:
                assert "bm25-whole" not in pipeline.artifact(key).manifest.to_json(), key
