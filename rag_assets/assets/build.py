"""Builds the Dagster assets of an experiment from its stages.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg

from rag_assets.assets import metadata
from rag_assets.assets.backfills import backfill_policy
from rag_assets.assets.names import artifact_key, asset_key, group_name, partition_key
from rag_assets.assets.partitions import (
    MAX_TRACKED_PARENTS,
    edges_of,
    mapping_of,
    partitions_of,
    widest_edge,
)
from rag_assets.assets.provenance import latest_pointers, tags_of
from rag_assets.assets.reported import Reported
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stage import Stage
from rag_assets.pipeline.stages import STAGES

ASKED_TAG = "rag_assets/partitions"
"""Run tag: JSON list of the partitions that are wanted of a range, which is a cross product."""

DEFER_TAG = "dagster/defer_asset_events"
"""Run tag: Dagster itself writes no materialization; the body reports each partition."""

Report = dg.MaterializeResult[Any] | dg.AssetMaterialization
"""What a body yields: the result of its output, and an event a partition."""

PipelineFactory = Callable[[], Pipeline]
"""Gives the pipeline of a run: a new one in a worker, the driver's own in process."""


def build_assets(
    experiment: Experiment, open_pipeline: PipelineFactory
) -> list[dg.AssetsDefinition]:
    """Return one asset for each stage that the experiment uses."""
    with warnings.catch_warnings():
        # Known: multi-dimensional mappings and backfill policies are beta in Dagster 1.13.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return [
            _build(stage, experiment, open_pipeline)
            for stage in STAGES.values()
            if stage.keys(experiment)
        ]


def _build(
    stage: Stage, experiment: Experiment, open_pipeline: PipelineFactory
) -> dg.AssetsDefinition:
    partitions = partitions_of(stage, experiment)

    @dg.asset(
        key=asset_key(experiment.name, stage.name),
        deps=_deps(stage, experiment),
        partitions_def=partitions,
        group_name=group_name(experiment, stage),
        description=stage.row,
        metadata=metadata.of_asset(stage, experiment),
        kinds=set(stage.kinds),
        code_version=stage.code_version,
        backfill_policy=backfill_policy() if partitions else None,
    )
    def body(context: dg.AssetExecutionContext) -> Iterator[Report]:
        yield from _materialize(context, stage, open_pipeline())

    return body


def _deps(stage: Stage, experiment: Experiment) -> list[dg.AssetDep]:
    deps = []
    for asset, edge in edges_of(stage, experiment).items():
        parents = widest_edge(edge)
        if parents > MAX_TRACKED_PARENTS:
            warnings.warn(
                f"{experiment.name}/{stage.name} has {parents} parent partitions in {asset}; "
                f"Dagster tracks staleness over at most {MAX_TRACKED_PARENTS}",
                stacklevel=2,
            )
        key = asset_key(experiment.name, asset)
        deps.append(dg.AssetDep(key, partition_mapping=mapping_of(edge)))
    return deps


def _materialize(
    context: dg.AssetExecutionContext, stage: Stage, pipeline: Pipeline
) -> Iterator[Report]:
    """Bring the wanted partitions up to date and report each with its own version."""
    keys = [artifact_key(stage, partition) for partition in _wanted(context)]
    by_driver = DEFER_TAG in context.run.tags
    pointers = latest_pointers(context.instance, pipeline, stage)
    try:
        outcomes = pipeline.materialize(stage.name, keys)
    except RagAssetsError as error:
        if by_driver:
            raise
        raise dg.Failure(str(error), allow_retries=False) from error
    if len(outcomes) == 1 and not by_driver:
        outcome = outcomes[0]
        version = dg.DataVersion(pipeline.data_version(outcome.artifact, outcome.key))
        shown = metadata.of_materialization(stage, outcome, pipeline)
        yield dg.MaterializeResult(metadata=shown, data_version=version)
        Reported(pipeline).add(keys)
        return
    # The bare result fulfils the output, so that assets downstream in the same run are not
    # skipped; the events after it are what counts.
    yield dg.MaterializeResult()
    for outcome in outcomes:
        yield dg.AssetMaterialization(
            asset_key=context.asset_key,
            partition=partition_key(outcome.key),
            metadata=metadata.of_materialization(stage, outcome, pipeline),
            tags=tags_of(pipeline, outcome, pointers),
        )
    Reported(pipeline).add(keys)


def _wanted(context: dg.AssetExecutionContext) -> Sequence[str | None]:
    if not context.has_partition_key and not context.has_partition_key_range:
        return [None]
    partitions = [str(key) for key in context.partition_keys]
    asked = context.run.tags.get(ASKED_TAG)
    return [p for p in partitions if p in set(json.loads(asked))] if asked else partitions
