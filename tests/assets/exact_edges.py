"""Whether Dagster's edges between partitions are those of the stages."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from rag_assets.assets.names import asset_key, partition_key
from rag_assets.pipeline.stages import STAGES
from tests.dagster_state import definitions
from tests.tiny_experiment import Tiny


def check_edges(tiny: Tiny, assets: Iterable[str]) -> int:
    """Check every edge into some assets in both directions; return how many pairs there are."""
    experiment = tiny.pipeline().experiment
    graph = definitions(tiny).resolve_asset_graph()
    n_pairs = 0
    with dg.partition_loading_context():
        for child in assets:
            child_key = asset_key("tiny", child)
            keys = STAGES[child].keys(experiment)
            assert keys
            for parent_key in graph.get(child_key).parent_keys:
                parent = parent_key.path[-1]
                if not STAGES[parent].dimensions:
                    continue
                pairs = set()
                for key in keys:
                    inputs = STAGES[child].inputs(experiment, key)
                    expected = {partition_key(i.key) for i in inputs if i.key.asset == parent}
                    found = graph.get_parent_partition_keys_for_child(
                        partition_key(key), parent_key, child_key
                    )
                    assert set(found.partitions_subset.get_partition_keys()) == expected
                    pairs |= {(name, partition_key(key)) for name in expected}
                for key in STAGES[parent].keys(experiment):
                    children = {one for name, one in pairs if name == partition_key(key)}
                    if STAGES[child].dimensions:
                        name = partition_key(key)
                        assert name is not None
                        back = graph.get_child_partition_keys_of_parent(name, parent_key, child_key)
                        assert set(back) == children
                n_pairs += len(pairs)
    return n_pairs
