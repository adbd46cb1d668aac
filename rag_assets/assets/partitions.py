"""Partitions of every asset, the exact mapping of every edge, and how a backfill is cut.

Mappings are derived from :meth:`Stage.inputs`, so Dagster's lineage and the fingerprints cannot
disagree. Every edge states its mapping: without one, Dagster takes identity without a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

import dagster as dg

from rag_assets.assets.names import dimension_values, partition_key
from rag_assets.engine.stage import Stage
from rag_assets.errors import UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.store.artifacts import ArtifactKey

MAX_TRACKED_PARENTS = 99
"""Dagster 1.13 gives up on staleness over an edge with 100 parent partitions or more."""

Edge = Sequence[tuple[ArtifactKey, ArtifactKey]]
"""All (parent, child) pairs of partitions between two assets."""


def partitions_of(stage: Stage, experiment: Experiment) -> dg.PartitionsDefinition | None:
    """Return the static partitions of a stage; None when it has none."""
    keys = stage.keys(experiment)
    static = {
        name: dg.StaticPartitionsDefinition(dimension_values(keys, name))
        for name in stage.dimensions
    }
    if not static:
        return None
    if len(static) == 1:
        return next(iter(static.values()))
    return dg.MultiPartitionsDefinition(static)


def edges_of(stage: Stage, experiment: Experiment) -> Mapping[str, Edge]:
    """Return upstream asset -> all pairs of partitions, for every edge into a stage."""
    edges: dict[str, list[tuple[ArtifactKey, ArtifactKey]]] = {}
    for child in stage.keys(experiment):
        for item in stage.inputs(experiment, child):
            edges.setdefault(item.key.asset, []).append((item.key, child))
    return edges


def mapping_of(edge: Edge) -> dg.PartitionMapping | None:
    """Return the mapping that gives exactly the pairs of an edge."""
    parent, child = (dict(key.partition) for key in edge[0])
    if not parent:
        return None
    if not child:
        # Not AllPartitionMapping: the child may read some of the parent's partitions only.
        names = {name for key, _ in edge if (name := partition_key(key)) is not None}
        return dg.SpecificPartitionsPartitionMapping(sorted(names))
    if len(parent) == len(child) == 1:
        (parent_name,), (child_name,) = parent, child
        return _static(edge, parent_name, child_name)
    if len(parent) == len(child) == 2:
        return dg.MultiPartitionMapping(
            {
                "retriever": dg.DimensionPartitionMapping(
                    "retriever", _static(edge, "retriever", "retriever")
                ),
                "top_k": dg.DimensionPartitionMapping("top_k", _top_k_mapping(edge)),
            }
        )
    # One side has a dimension alone, `retriever` or `top_k`, and it is the other side's dimension.
    (alone,) = parent if len(parent) == 1 else child
    return dg.MultiToSingleDimensionPartitionMapping(alone)


def _top_k_mapping(edge: Edge) -> dg.PartitionMapping:
    """Return identity, or for a child at one cut-off that reads others the exact pairs."""
    if all(parent["top_k"] == child["top_k"] for parent, child in edge):
        return dg.IdentityPartitionMapping()
    return _static(edge, "top_k", "top_k")


def _static(edge: Edge, parent_name: str, child_name: str) -> dg.StaticPartitionMapping:
    children: Mapping[str, set[str]] = {parent[parent_name]: set() for parent, _ in edge}
    for parent, child in edge:
        children[parent[parent_name]].add(child[child_name])
    return dg.StaticPartitionMapping({name: sorted(found) for name, found in children.items()})


def widest_edge(edge: Edge) -> int:
    """Return the largest number of parent partitions of one child over an edge."""
    counts: dict[ArtifactKey, int] = {}
    for _, child in edge:
        counts[child] = counts.get(child, 0) + 1
    return max(counts.values(), default=0)


VARIABLE = "RAG_ASSETS_BACKFILL"


def backfill_policy() -> dg.BackfillPolicy:
    """Return the policy of all assets with partitions: ``RAG_ASSETS_BACKFILL``.

    ``single_run``, the default, is one run for each range of partitions: right for one machine.
    ``multi_run`` is a run for each partition, ``multi_run(n)`` for each n: for runs on several
    machines with a common store.

    Raises:
        UsageError: it is none of these.
    """
    text = os.environ.get(VARIABLE) or "single_run"
    found = re.fullmatch(r"single_run|multi_run(?:\(([1-9][0-9]{0,5})\))?", text, re.ASCII)
    if found is None:
        raise UsageError(
            f"{VARIABLE} must be single_run, multi_run or multi_run(n), n partitions a run; "
            f"found {text!r}"
        )
    if text == "single_run":
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(int(found[1] or 1))
