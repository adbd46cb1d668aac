"""Builds the Dagster assets of an experiment from its stages.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from rag_assets.assets import metadata
from rag_assets.assets.backfills import backfill_policy
from rag_assets.assets.checks import Evaluated, check_outputs, check_specs, evaluations
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
from rag_assets.pipeline.checks import results_of, results_of_unreadable
from rag_assets.pipeline.checks.blocked import Blocked
from rag_assets.pipeline.column_origins import ColumnOrigins
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.pipeline.stage import Stage
from rag_assets.pipeline.stages import STAGES

ASKED_TAG = "rag_assets/partitions"
"""Run tag: JSON list of the partitions that are wanted of a range, which is a cross product."""

MOST_KINDS = 3
"""Icons that Dagster allows for an asset."""

DEFER_TAG = "dagster/defer_asset_events"
"""Run tag: Dagster itself writes no materialization; the body reports each partition."""

Report = dg.MaterializeResult[Any] | dg.AssetMaterialization | Evaluated
"""What a body yields: the result of its output, and events a partition."""

PipelineFactory = Callable[[], Pipeline]
"""Gives the pipeline of a run: a new one in a worker, the driver's own in process."""


def build_assets(
    experiment: Experiment, open_pipeline: PipelineFactory, *, declare_checks: bool = True
) -> list[dg.AssetsDefinition]:
    """Return one asset for each stage that the experiment uses.

    Args:
        experiment: the experiment.
        open_pipeline: gives the pipeline of a run.
        declare_checks: whether Dagster is told beforehand which checks there will be. It then plans
            one for every partition of a run's range, wanted or not; the driver does not tell, and
            reports those that were made.
    """
    with warnings.catch_warnings():
        # Known: multi-dimensional mappings and backfill policies are beta in Dagster 1.13, and
        # checks of partitions a preview.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        origins = ColumnOrigins(experiment)
        return [
            _build(stage, origins, open_pipeline, declare_checks)
            for stage in STAGES.values()
            if stage.keys(experiment)
        ]


def _build(
    stage: Stage, origins: ColumnOrigins, open_pipeline: PipelineFactory, declare_checks: bool
) -> dg.AssetsDefinition:
    experiment = origins.experiment
    partitions = partitions_of(stage, experiment)
    checks = check_specs(stage, experiment, partitions) if declare_checks else []

    @dg.asset(
        key=asset_key(experiment.name, stage.name),
        deps=_deps(stage, experiment),
        partitions_def=partitions,
        group_name=group_name(experiment, stage),
        description=stage.row,
        metadata=metadata.of_asset(stage, origins),
        tags=metadata.tags_of_asset(stage, experiment),
        kinds=set(sorted(stage.kinds_of(experiment))[:MOST_KINDS]),
        owners=list(experiment.owners),
        code_version=stage.code_version,
        backfill_policy=backfill_policy() if partitions else None,
        check_specs=checks,
    )
    def body(context: dg.AssetExecutionContext) -> Iterator[Report]:
        yield from check_outputs(checks)
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
    """Bring the wanted partitions up to date, check them, report each with its own version."""
    wanted = [artifact_key(stage, partition) for partition in _wanted(context)]
    by_driver = DEFER_TAG in context.run.tags
    blocked = Blocked(pipeline)
    keys = [key for key in wanted if blocked.stopped_by(key) is None]
    pointers = latest_pointers(context.instance, pipeline, stage)
    single = len(wanted) == 1 and not by_driver
    all_wanted = len(keys) == len(wanted)
    try:
        outcomes = pipeline.materialize(stage.name, keys)
    except RagAssetsError as error:
        yield from evaluations(context, results_of_unreadable(pipeline, stage, error))
        if by_driver:
            raise
        raise dg.Failure(str(error), allow_retries=False) from error
    if not by_driver:
        pipeline.store.verified.save()  # the driver saves once, at its end
    context.log.info(_summary(outcomes))
    if single and outcomes:
        yield _single(stage, pipeline, outcomes[0])
    else:
        if all_wanted:
            # The bare result fulfils the output, so that assets downstream in the same run are not
            # skipped; the events after it are what counts. It is an event of every partition.
            yield dg.MaterializeResult()
        for outcome in outcomes:
            yield _materialization(context.asset_key, stage, pipeline, outcome, pointers)
    results = results_of(pipeline, stage, outcomes)
    blocked.record(keys, results)
    # Of several partitions those that passed go on: the others are stopped by `blocked`.
    yield from evaluations(context, results, fails_run=single)
    Reported(pipeline).add([key for key in keys if not blocked.failed(key)])
    if not all_wanted:
        stopped = {str(key): str(blocked.stopped_by(key)) for key in wanted if key not in keys}
        raise dg.Failure(_not_computed(stopped), allow_retries=False)


def _single(stage: Stage, pipeline: Pipeline, outcome: Outcome) -> dg.MaterializeResult[Any]:
    version = dg.DataVersion(pipeline.data_version(outcome.artifact, outcome.key))
    shown = metadata.of_materialization(stage, outcome, pipeline)
    return dg.MaterializeResult(metadata=shown, data_version=version)


def _materialization(
    asset: dg.AssetKey,
    stage: Stage,
    pipeline: Pipeline,
    outcome: Outcome,
    pointers: Mapping[str, int | None],
) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        asset_key=asset,
        partition=partition_key(outcome.key),
        metadata=metadata.of_materialization(stage, outcome, pipeline),
        tags=tags_of(pipeline, outcome, pointers),
    )


def _not_computed(stopped: Mapping[str, str]) -> str:
    """Return a sentence about partitions that read one whose blocking check failed."""
    (key, cause), *others = stopped.items()
    more = f" (and {len(others)} more)" if others else ""
    return f"{key} was not computed, because {cause} failed a blocking check{more}"


def _summary(outcomes: Sequence[Outcome]) -> str:
    """Return a line for the log of the run."""
    n_reused = sum(outcome.reused for outcome in outcomes)
    return f"{len(outcomes) - n_reused} computed, {n_reused} up to date and reused"


def _wanted(context: dg.AssetExecutionContext) -> Sequence[str | None]:
    if not context.has_partition_key and not context.has_partition_key_range:
        return [None]
    partitions = [str(key) for key in context.partition_keys]
    asked = context.run.tags.get(ASKED_TAG)
    return [p for p in partitions if p in set(json.loads(asked))] if asked else partitions
