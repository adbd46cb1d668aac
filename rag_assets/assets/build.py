"""Builds the Dagster assets of an experiment from its stages.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg

from rag_assets.assets import metadata
from rag_assets.assets.checks import check_outputs, check_specs
from rag_assets.assets.names import artifact_key, asset_key, group_name
from rag_assets.assets.partitions import (
    MAX_TRACKED_PARENTS,
    backfill_policy,
    edges_of,
    mapping_of,
    partitions_of,
    widest_edge,
)
from rag_assets.assets.provenance import latest_pointers
from rag_assets.assets.reports import (
    Event,
    checked,
    materializations,
    not_computed,
    remember,
    summary,
    unreadable,
)
from rag_assets.assets.resources import Resources
from rag_assets.assets.servers import failure, pool_of, retry_policy_of
from rag_assets.code_versions.versions import CodeVersions, code_versions
from rag_assets.engine.stage import Stage
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.checks.failed_checks import FailedChecks
from rag_assets.pipeline.column_lineage import ColumnOrigins
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.pipeline.registry import check_name
from rag_assets.pipeline.stages import STAGES

MOST_KINDS = 3
"""Icons that Dagster allows for an asset."""

Report = dg.MaterializeResult[Any] | dg.Output[Any] | Event
"""What a body yields: the results of its outputs, and events a partition."""

PipelineFactory = Callable[[], Pipeline]
"""Gives the pipeline of a run."""


def build_assets(
    experiment: Experiment,
    open_pipeline: PipelineFactory,
    resources: Resources | None = None,
    versions: CodeVersions | None = None,
) -> list[dg.AssetsDefinition]:
    """Return one asset for each stage that the experiment uses.

    Args:
        experiment: the experiment.
        open_pipeline: gives the pipeline of a run.
        resources: what gives it instead, where the code location has them.
        versions: of the code of each stage; None finds them anew.
    """
    with warnings.catch_warnings():
        # Known: multi-dimensional mappings and backfill policies are beta in Dagster 1.13, and
        # checks of partitions a preview.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        origins = ColumnOrigins(experiment)
        return [
            _build(stage, origins, open_pipeline, versions or code_versions(), resources)
            for stage in STAGES.values()
            if stage.keys(experiment)
        ]


def _build(
    stage: Stage,
    origins: ColumnOrigins,
    open_pipeline: PipelineFactory,
    versions: CodeVersions,
    resources: Resources | None,
) -> dg.AssetsDefinition:
    experiment = origins.experiment
    partitions = partitions_of(stage, experiment)
    checks = check_specs(stage, experiment, partitions)

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
        code_version=versions.of(stage.own_code()),
        backfill_policy=backfill_policy() if partitions else None,
        retry_policy=retry_policy_of(stage, experiment),
        pool=pool_of(stage, experiment),
        check_specs=checks,
        required_resource_keys=resources.names if resources else None,
    )
    def body(context: dg.AssetExecutionContext) -> Iterator[Report]:
        yield from check_outputs(checks)
        if resources is None:
            yield from _materialize(context, stage, open_pipeline())
            return
        with resources.opened(context.op_execution_context, experiment) as pipeline:
            yield from _materialize(context, stage, pipeline)

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
    failed_checks = FailedChecks(pipeline)
    keys = [key for key in wanted if failed_checks.stopped_by(key) is None]
    pointers = latest_pointers(context.instance, pipeline, stage)
    single = len(wanted) == 1
    all_wanted = len(keys) == len(wanted)
    try:
        check_name(pipeline.experiment, pipeline.settings)
        outcomes = pipeline.materialize(stage.name, keys)
    except RagAssetsError as error:
        yield from unreadable(pipeline, stage, error)
        raise failure(error) from error
    pipeline.store.verified.save()
    context.log.info(summary(outcomes))
    if single and outcomes:
        yield _single(stage, pipeline, outcomes[0])
    else:
        if all_wanted:
            # The bare result fulfils the output, so that assets downstream in the same run are not
            # skipped; the events after it are what counts. It is an event of every partition.
            yield dg.MaterializeResult()
        yield from materializations(pipeline, stage, outcomes, pointers)
    yield from checked(pipeline, stage, outcomes, fails_run=single)
    remember(pipeline, outcomes)
    if not all_wanted:
        stopped = {
            str(key): str(failed_checks.stopped_by(key)) for key in wanted if key not in keys
        }
        raise dg.Failure(not_computed(stopped), allow_retries=False)


def _single(stage: Stage, pipeline: Pipeline, outcome: Outcome) -> dg.MaterializeResult[Any]:
    version = dg.DataVersion(pipeline.data_version(outcome.artifact, outcome.key))
    shown = metadata.of_materialization(stage, outcome, pipeline)
    return dg.MaterializeResult(metadata=shown, data_version=version)


def _wanted(context: dg.AssetExecutionContext) -> Sequence[str | None]:
    if not context.has_partition_key and not context.has_partition_key_range:
        return [None]
    return [str(key) for key in context.partition_keys]
