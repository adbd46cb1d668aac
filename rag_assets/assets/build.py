"""Builds the Dagster assets of an experiment from its stages: partitions, edges, computation.

Mappings of partitions are derived from :meth:`Stage.inputs`, so Dagster's lineage and the
fingerprints cannot disagree. Every edge states its mapping: without one, Dagster takes identity
without a word.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import dagster as dg

from rag_assets.assets import metadata
from rag_assets.assets.execution import failure, freshness_policy, pool_of, retry_policy
from rag_assets.assets.names import artifact_key, asset_key, partition_key, plain_name
from rag_assets.assets.reported_versions import ReportedVersions, read_keys
from rag_assets.assets.reports import (
    Event,
    check_specs,
    checked,
    latest_pointers,
    materializations,
    upstream_of,
)
from rag_assets.assets.resources import ParquetIOManager
from rag_assets.code_versions.versions import CodeVersions, code_versions
from rag_assets.engine.stage import Stage
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.evaluation_names import check_name
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings

Edge = Sequence[tuple[ArtifactKey, ArtifactKey]]
"""All (parent, child) pairs of partitions between two assets."""


def partitions_of(stage: Stage, experiment: Experiment) -> dg.PartitionsDefinition | None:
    """Return the static partitions of a stage; None when it has none."""
    keys = stage.keys(experiment)
    static = {
        name: dg.StaticPartitionsDefinition(list(dict.fromkeys(key[name] for key in keys)))
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
        for parent in read_keys(experiment, child):
            edges.setdefault(parent.asset, []).append((parent, child))
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
        # A child at one cut-off may read others.
        at_same = all(above["top_k"] == below["top_k"] for above, below in edge)
        cutoffs = dg.IdentityPartitionMapping() if at_same else _static(edge, "top_k", "top_k")
        retrievers = _static(edge, "retriever", "retriever")
        mappings = {"retriever": retrievers, "top_k": cutoffs}
        return dg.MultiPartitionMapping(
            {name: dg.DimensionPartitionMapping(name, mapped) for name, mapped in mappings.items()}
        )
    # One side has a dimension alone, `retriever` or `top_k`, and it is the other side's dimension.
    (alone,) = parent if len(parent) == 1 else child
    return dg.MultiToSingleDimensionPartitionMapping(alone)


def _static(edge: Edge, parent_name: str, child_name: str) -> dg.StaticPartitionMapping:
    children: Mapping[str, set[str]] = {parent[parent_name]: set() for parent, _ in edge}
    for parent, child in edge:
        children[parent[parent_name]].add(child[child_name])
    return dg.StaticPartitionMapping({name: sorted(names) for name, names in children.items()})


SOURCES = ("documents", "queries", "qrels")
"""The stages that read the files of an experiment."""

MAX_KINDS = 3
"""Icons that Dagster allows for an asset."""

Report = dg.MaterializeResult[Any] | dg.Output[Any] | Event
"""What a body yields: the results of its outputs, and events a partition."""

PipelineFactory = Callable[[], Pipeline]
"""Gives the pipeline of a run."""


def build_assets(
    experiment: Experiment,
    settings: StoreSettings,
    versions: CodeVersions | None = None,
    deps: Sequence[str] = (),
    ray: str | None = None,
) -> list[dg.AssetsDefinition]:
    """Return one asset for each stage that the experiment uses.

    Args:
        experiment: the experiment.
        settings: where its results are kept.
        versions: of the code of each stage; None finds them anew.
        deps: other assets of the project that bring the files of the experiment, besides those that
            its YAML names.
        ray: key of a resource that every asset needs: a Ray cluster.
    """
    tables = ParquetIOManager(store=settings.place, state_dir=str(settings.state_dir))
    open_pipeline = partial(Pipeline, experiment, settings)
    with warnings.catch_warnings():
        # Known: multi-dimensional mappings and backfill policies are beta in Dagster 1.13, and
        # checks of partitions a preview.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            _build(stage, experiment, open_pipeline, versions or code_versions(), tables, deps, ray)
            for stage in STAGES.values()
            if stage.keys(experiment)
        ]


def _build(
    stage: Stage,
    experiment: Experiment,
    open_pipeline: PipelineFactory,
    versions: CodeVersions,
    tables: ParquetIOManager,
    deps: Sequence[str],
    ray: str | None,
) -> dg.AssetsDefinition:
    partitions = partitions_of(stage, experiment)
    checks = check_specs(stage, experiment, partitions)
    of_yaml = [keys for name, keys in experiment.config.deps.items() if name == stage.name]
    outside = [*chain(*of_yaml), *(deps if stage.name in SOURCES else ())]
    name = plain_name(experiment.name)

    @dg.asset(
        key=asset_key(experiment.name, stage.name),
        deps=[
            *(
                dg.AssetDep(asset_key(experiment.name, name), partition_mapping=mapping_of(edge))
                for name, edge in edges_of(stage, experiment).items()
            ),
            *(dg.AssetKey.from_user_string(name) for name in dict.fromkeys(outside)),
        ],
        partitions_def=partitions,
        group_name=f"{name}/{stage.group}",
        description=inspect.cleandoc(type(stage).__doc__ or "").splitlines()[0],
        metadata=metadata.of_asset(stage, experiment),
        tags=metadata.tags_of_asset(stage, experiment),
        kinds=set(sorted(stage.kinds_of(experiment))[:MAX_KINDS]),
        code_version=versions.of(stage.own_code()),
        backfill_policy=dg.BackfillPolicy.single_run() if partitions else None,
        retry_policy=retry_policy([stage], experiment),
        pool=pool_of(stage, experiment),
        check_specs=checks,
        freshness_policy=freshness_policy(stage, experiment),
        resource_defs={f"{name}_tables": tables},
        required_resource_keys={ray} if ray else None,
        io_manager_key=f"{name}_tables",
    )
    def body(context: dg.AssetExecutionContext) -> Iterator[Report]:
        for spec in checks:  # Dagster waits for these: children in the same run depend on them
            yield dg.Output(None, output_name=spec.get_python_identifier())
        yield from _materialize(context, stage, open_pipeline())

    return body


def _materialize(
    context: dg.AssetExecutionContext, stage: Stage, pipeline: Pipeline
) -> Iterator[Report]:
    """Bring the wanted partitions up to date, check them, report each with its own version."""
    # A run may be of a partition though this asset has none, as documents beside their chunks.
    partitions = context.partition_keys if stage.dimensions else [None]
    keys = [artifact_key(stage, partition) for partition in partitions]
    upstream = upstream_of(context.assets_def.asset_deps, pipeline.experiment, context.instance)
    pointers = latest_pointers(context.instance, pipeline, stage)
    try:
        check_name(pipeline.experiment, pipeline.settings)
        outcomes = pipeline.materialize(stage.name, keys)
    except RagAssetsError as error:
        raise failure(error) from error
    pipeline.store.verified.save()
    n_reused = sum(outcome.reused for outcome in outcomes)
    context.log.info(f"{len(outcomes) - n_reused} computed, {n_reused} up to date and reused")
    if len(outcomes) == 1:
        (outcome,) = outcomes
        yield dg.MaterializeResult(
            metadata=metadata.of_materialization(stage, outcome, pipeline),
            data_version=dg.DataVersion(pipeline.data_version(outcome.artifact, outcome.key)),
        )
    else:
        # The bare result fulfils the output, so that assets downstream in the same run are not
        # skipped; the events after it are what counts. It is an event of every partition.
        yield dg.MaterializeResult()
        yield from materializations(pipeline, stage, outcomes, pointers, upstream)
    yield from checked(pipeline, stage, outcomes)
    ReportedVersions(pipeline, upstream).add(keys)
