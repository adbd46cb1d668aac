"""Names in Dagster: asset keys, groups, partition keys; and the descriptions of assets."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Sequence

import dagster as dg

from rag_assets.assets.reported_versions import knows_nothing
from rag_assets.engine.stage import Stage
from rag_assets.errors import UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.report.html import report_path
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings

SEPARATOR = "|"
"""Dagster joins the dimensions of a multi-partition key with it, in the order of their names."""


def asset_key(experiment: str, asset: str) -> dg.AssetKey:
    """Return ``<experiment>/<asset>``."""
    return dg.AssetKey([experiment, asset])


def group_name(experiment: Experiment, stage: Stage) -> str:
    """Return the group ``<experiment>/<part of the pipeline>``; groups allow fewer characters."""
    return f"{plain_name(experiment)}/{stage.group}"


def plain_name(experiment: Experiment) -> str:
    """Return the experiment's name for groups, jobs, schedules and sensors.

    They allow letters, digits and underscores only, so two experiments may have one plain name.
    """
    return re.sub("[.-]", "_", experiment.name)


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


def dimension_values(keys: Sequence[ArtifactKey], dimension: str) -> list[str]:
    """Return the values of one dimension, in the order of the experiment."""
    return list(dict.fromkeys(key[dimension] for key in keys))


def report_job_name(experiment: Experiment) -> str:
    """Return ``<experiment>_report``."""
    return f"{plain_name(experiment)}_report"


REPORTS = "RAG_ASSETS_REPORTS"
"""Environment variable: the address below which the reports are served."""

_FIRST_SEEN = ("documents", "leaderboard")
"""Where a graph begins, and what people look for."""


def description_of(stage: Stage) -> str:
    """Return what an asset is, in one sentence: the first line of its stage's docstring."""
    return inspect.cleandoc(type(stage).__doc__ or "").splitlines()[0]


def described(
    assets: Sequence[dg.AssetsDefinition], experiment: Experiment, settings: StoreSettings
) -> list[dg.AssetsDefinition]:
    """Return the assets, with a link to the report, and what to do where Dagster knows nothing.

    Raises:
        UsageError: ``RAG_ASSETS_REPORTS`` is no address.
    """
    link = _report_link(experiment)
    hint = (
        f"When this code location was loaded, the store had an evaluation that Dagster was not "
        f"told of: launch the job `{report_job_name(experiment)}`, which computes nothing."
        if knows_nothing(settings, experiment.name)
        else None
    )

    def with_notes(spec: dg.AssetSpec) -> dg.AssetSpec:
        asset = spec.key.path[-1]
        notes = [link if asset == "leaderboard" else None, hint if asset in _FIRST_SEEN else None]
        parts = [spec.description, *notes]
        return spec.replace_attributes(description="\n\n".join(part for part in parts if part))

    return list(dg.map_asset_specs(with_notes, assets))


def _report_link(experiment: Experiment) -> str | None:
    address = os.environ.get(REPORTS)
    if not address:
        return None
    if re.fullmatch(r"https?://[^\s()<>\[\]]+", address) is None:
        raise UsageError(f"{REPORTS} must begin with http:// or https://; found {address!r}")
    return f"[Open the report]({address.rstrip('/')}/{report_path(experiment.name)})"
