"""Artifacts are objects by fingerprint: equal work is done once, whatever it is called."""

from __future__ import annotations

import json

from rag_assets.pipeline.selection import Selection
from rag_assets.reporting.result import EvaluationResult
from tests.tiny_experiment import Tiny


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


def test_what_a_grid_shares_is_stored_once(one: Tiny) -> None:
    one.config["retrievers"] = {
        f"b{number}": {"type": "bm25", "chunking": "parts", "k1": 1 + number / 10}
        for number in range(6)
    }
    one.config["baseline"] = "b0"
    one.write_config()
    pipeline = one.pipeline()
    n_partitions = sum(len(stage.keys(pipeline.experiment)) for stage in pipeline.stages())
    # Judgments, queries and lengths of contexts are the same for all six.
    assert computed(one) <= n_partitions - 3 * 5
    for asset in ("judgments", "lexical_queries", "retriever_contexts"):
        assert len(pipeline.store.names(asset)) == 1, asset
    assert len(pipeline.store.names("lexical_index")) == 6


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
