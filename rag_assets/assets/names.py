"""Names in Dagster: asset keys, groups, partition keys; and the descriptions of assets."""

from __future__ import annotations

import re

import dagster as dg

from rag_assets.engine.stage import Stage
from rag_assets.store.artifacts import ArtifactKey

SEPARATOR = "|"
"""Dagster joins the dimensions of a multi-partition key with it, in the order of their names."""


def asset_key(experiment: str, asset: str) -> dg.AssetKey:
    """Return ``<experiment>/<asset>``."""
    return dg.AssetKey([experiment, asset])


def plain_name(experiment: str) -> str:
    """Return the experiment's name for groups, jobs, schedules and sensors.

    They allow letters, digits and underscores only, so two experiments may have one plain name.
    """
    return re.sub(r"\W", "_", experiment, flags=re.ASCII)


def partition_key(key: ArtifactKey) -> str | None:
    """Return Dagster's partition key; None for an asset without partitions."""
    values = [value for _, value in sorted(key.partition)]
    return SEPARATOR.join(values) if values else None


def artifact_key(stage: Stage, partition: str | None) -> ArtifactKey:
    """Return the partition that Dagster's partition key means."""
    if partition is None:
        return ArtifactKey.of(stage.name)
    values = partition.split(SEPARATOR)
    by_dimension = dict(zip(sorted(stage.dimensions), values, strict=True))
    return ArtifactKey(stage.name, tuple((name, by_dimension[name]) for name in stage.dimensions))
