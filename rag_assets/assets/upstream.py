"""Assets of a project on which the stages of an experiment depend in Dagster alone.

A project gives them with `deps`, as in the `post_processing` of a component. The pipeline knows
nothing of them. Dagster calls a partition stale until its latest materialization names their data
versions, so all that reports materializations names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import dagster as dg

from rag_assets.assets.names import asset_key
from rag_assets.assets.provenance import DATA_VERSION, INPUT_VERSION
from rag_assets.assets.reported_versions import Upstream, UpstreamVersion, read_keys
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stages import STAGES

INITIAL = "INITIAL"
"""Dagster's version of an asset that was never materialized or observed."""

_TAG = f"{INPUT_VERSION}/"


def upstream_in_job(context: dg.OpExecutionContext, experiment: Experiment) -> Upstream:
    """Return what the assets of the running job's code location depend on."""
    try:
        assets = context.repository_def.assets_defs_by_key
    except Exception:  # the job was run in Python, without a code location
        return {}
    parents = {key: above for one in assets.values() for key, above in one.asset_deps.items()}
    return upstream_of(parents, experiment, context.instance)


def upstream_as_reported(experiment: Experiment, instance: dg.DagsterInstance) -> Upstream:
    """Return it where there is no code location: the parents that Dagster was told of before."""
    parents: dict[dg.AssetKey, list[dg.AssetKey]] = {}
    for stage in STAGES.values():
        key = asset_key(experiment.name, stage.name)
        for record in instance.fetch_materializations(key, limit=1).records:
            tags = record.event_log_entry.tags or {}
            names = [tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG)]
            parents[key] = [dg.AssetKey.from_user_string(name) for name in names]
    return upstream_of(parents, experiment, instance)


def upstream_of(
    parents: Mapping[dg.AssetKey, Iterable[dg.AssetKey]],
    experiment: Experiment,
    instance: dg.DagsterInstance,
) -> Upstream:
    """Return the versions that the parents outside of the experiment have now.

    Asked for before the sources are read: a parent that is reported meanwhile then looks newer.
    """
    upstream: dict[str, Mapping[str, UpstreamVersion]] = {}
    for stage in STAGES.values():
        keys = stage.keys(experiment)
        inside = {
            asset_key(experiment.name, read.asset)
            for key in keys
            for read in read_keys(experiment, key)
        }
        outside = set(parents.get(asset_key(experiment.name, stage.name), ())) - inside
        if keys and outside:
            upstream[stage.name] = {
                key.to_user_string(): _latest(key, instance) for key in sorted(outside)
            }
    return upstream


def _latest(key: dg.AssetKey, instance: dg.DagsterInstance) -> UpstreamVersion:
    """Return the version of the latest materialization, or of the latest observation.

    Of a parent with partitions Dagster compares the place in the event log alone.
    """
    records = (
        instance.fetch_materializations(key, limit=1).records
        or instance.fetch_observations(key, limit=1).records
    )
    if not records:
        return UpstreamVersion(INITIAL, "NULL")
    pointer = str(records[0].storage_id)
    if records[0].partition_key is not None:
        return UpstreamVersion(pointer, pointer)
    tags = records[0].event_log_entry.tags or {}
    return UpstreamVersion(tags.get(DATA_VERSION, INITIAL), pointer)
