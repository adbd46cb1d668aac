"""The edges of what reads rerankers: Dagster resolves them only when a partition is computed."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from rag_assets.assets.build import build_assets
from rag_assets.assets.names import asset_key, partition_key
from rag_assets.pipeline.stages import STAGES
from tests.tiny_experiment import Tiny


def test_parents_are_exactly_the_inputs(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path).write()
    tiny.configure("late", type="maxsim", input="hybrid", candidates=5)
    tiny.configure("diverse", type="mmr", input="bm25", candidates=5)
    tiny.configure("last", type="maxsim", input="late", candidates=3)
    tiny.configure("joined", type="rrf", inputs=["bm25", "diverse"])
    tiny.configure("full", type="maxsim", input="bm25", candidates="all")
    experiment = tiny.pipeline().experiment
    assets = build_assets(experiment, tiny.pipeline)
    graph = dg.Definitions(assets=assets).resolve_asset_graph()
    n_edges = 0
    with dg.partition_loading_context():
        runs = ("reranked_runs", "second_fused_runs", "second_reranked_runs")
        for name in (*runs, "list_similarities", "second_list_similarities", "metrics"):
            for key in STAGES[name].keys(experiment):
                inputs = STAGES[name].inputs(experiment, key)
                for parent in {item.key.asset for item in inputs if item.key.partition}:
                    found = graph.get_parent_partition_keys_for_child(
                        partition_key(key), asset_key("tiny", parent), asset_key("tiny", name)
                    )
                    wanted = {partition_key(i.key) for i in inputs if i.key.asset == parent}
                    assert set(found.partitions_subset.get_partition_keys()) == wanted
                    n_edges += len(wanted)
    assert n_edges > 20
