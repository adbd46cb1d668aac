"""What Dagster is told of a stage's partitions: a materialization each, and their checks.

Tags let Dagster decide, exactly and for each partition, whether it is stale. A ranged run would
copy one result to all its partitions; so one ``AssetMaterialization`` is reported a partition, with
the same tags that Dagster writes itself in a run of one partition.

A project may let stages depend on assets of its own (`deps`, as in the `post_processing` of a
component). The pipeline knows nothing of them. Dagster calls a partition stale until its latest
materialization names their data versions, so all that reports materializations names them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from rag_assets.assets import metadata
from rag_assets.assets.execution import without_foreign
from rag_assets.assets.floor_checks import floor_check
from rag_assets.assets.metadata import DIGITS
from rag_assets.assets.names import asset_key, partition_key
from rag_assets.assets.reported_versions import (
    ReportedVersions,
    Upstream,
    UpstreamVersion,
    read_keys,
)
from rag_assets.checks.asset_checks import checks_of, results_of
from rag_assets.checks.check import MAX_EXAMPLES, CheckResult
from rag_assets.engine.stage import Stage
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.findings import WARNING
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.plain_text import markdown
from rag_assets.store.artifacts import ArtifactKey

DATA_VERSION = "dagster/data_version"
USER_PROVIDED = "dagster/data_version_is_user_provided"
CODE_VERSION = "dagster/code_version"
PARTITION = "dagster/partition"
INPUT_VERSION = "dagster/input_data_version"
INPUT_POINTER = "dagster/input_event_pointer"

Pointers = Mapping[str, int | None]
"""Upstream asset -> storage id of its latest materialization; None: there is none."""


def latest_pointers(instance: dg.DagsterInstance, pipeline: Pipeline, stage: Stage) -> Pointers:
    """Return the latest materializations of the assets that a stage reads.

    Read before the inputs are: a parent that is reported meanwhile then looks newer, not older.
    """
    experiment = pipeline.experiment
    assets = {above.asset for key in stage.keys(experiment) for above in read_keys(experiment, key)}
    pointers: dict[str, int | None] = {}
    for asset in sorted(assets):
        key = asset_key(experiment.name, asset)
        records = instance.fetch_materializations(key, limit=1).records
        pointers[asset] = next((record.storage_id for record in records), None)
    return pointers


def tags_of(
    pipeline: Pipeline, outcome: Outcome, pointers: Pointers, upstream: Upstream
) -> dict[str, str]:
    """Return the tags of one partition's materialization."""
    stage = STAGES[outcome.key.asset]
    tags = {
        DATA_VERSION: pipeline.data_version(outcome.artifact, outcome.key),
        USER_PROVIDED: "true",
        CODE_VERSION: pipeline.code_version(stage.own_code()),
    }
    if len(outcome.key.partition) > 1:  # the dimensions, which Dagster also writes as tags
        tags |= {f"{PARTITION}/{name}": value for name, value in outcome.key.partition}
    parents: dict[str, list[ArtifactKey]] = {}
    for key in read_keys(pipeline.experiment, outcome.key):
        parents.setdefault(key.asset, []).append(key)
    for asset, keys in parents.items():
        name = asset_key(pipeline.experiment.name, asset).to_user_string()
        pointer = pointers.get(asset)
        tags[f"{INPUT_VERSION}/{name}"] = _version(pipeline, keys)
        tags[f"{INPUT_POINTER}/{name}"] = "NULL" if pointer is None else str(pointer)
    for name, latest in upstream.get(stage.name, {}).items():
        tags[f"{INPUT_VERSION}/{name}"] = latest.version
        tags[f"{INPUT_POINTER}/{name}"] = latest.pointer
    return tags


def _version(pipeline: Pipeline, keys: Sequence[ArtifactKey]) -> str:
    """Return the version of one parent, as Dagster forms it.

    An asset without partitions: its version. Partitions: SHA-256 of their versions, joined in the
    order of the partition keys.
    """
    versions: dict[str, str] = {}
    for key in keys:
        artifact = pipeline.current(key)
        if artifact is not None:
            versions[partition_key(key) or ""] = pipeline.data_version(artifact, key)
    if not keys[0].partition:
        return next(iter(versions.values()), "INITIAL")
    return hashlib.sha256("".join(versions[name] for name in sorted(versions)).encode()).hexdigest()


INITIAL = "INITIAL"
"""Dagster's version of an asset that was never materialized or observed."""

_TAG = f"{INPUT_VERSION}/"


def upstream_in_job(context: dg.OpExecutionContext, experiment: Experiment) -> Upstream:
    """Return what the assets of the running job's code location depend on."""
    try:
        assets = context.repository_def.assets_defs_by_key
    except Exception:  # the job was run in Python, without a code location
        return {}
    parents = {key: above for spec in assets.values() for key, above in spec.asset_deps.items()}
    return upstream_of(parents, experiment, context.instance)


def upstream_as_reported(experiment: Experiment, instance: dg.DagsterInstance) -> Upstream:
    """Return it where there is no code location: the parents that Dagster was told of before."""
    keys = [asset_key(experiment.name, name) for name in STAGES]
    parents: dict[dg.AssetKey, list[dg.AssetKey]] = {}
    for record in instance.get_asset_records(keys):
        latest = record.asset_entry.last_materialization
        tags = getattr(latest, "tags", None) or {}
        names = [tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG)]
        parents[record.asset_entry.asset_key] = [dg.AssetKey.from_user_string(n) for n in names]
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


Event = dg.AssetMaterialization | dg.AssetCheckEvaluation
"""An event of one partition."""


def reports(
    pipeline: Pipeline,
    stage: Stage,
    keys: Sequence[ArtifactKey],
    instance: dg.DagsterInstance,
    upstream: Upstream,
) -> Iterator[Event]:
    """Bring partitions of one stage up to date and yield what is to be told of them.

    Raises:
        RagAssetsError: what the stage raised.
    """
    # Not needed to load a code location.
    from rag_assets.assets.instance import stored_together

    pointers = latest_pointers(instance, pipeline, stage)
    try:
        outcomes = pipeline.materialize(stage.name, keys)
    except RagAssetsError as error:
        without_foreign(error)
        raise
    with stored_together(instance):
        yield from materializations(pipeline, stage, outcomes, pointers, upstream)
        yield from checked(pipeline, stage, outcomes)
    ReportedVersions(pipeline, upstream).add([*keys])


def materializations(
    pipeline: Pipeline,
    stage: Stage,
    outcomes: Sequence[Outcome],
    pointers: Pointers,
    upstream: Upstream,
) -> Iterator[dg.AssetMaterialization]:
    """Yield one event a partition, with its own data version and provenance."""
    for outcome in outcomes:
        yield dg.AssetMaterialization(
            asset_key=asset_key(pipeline.experiment.name, stage.name),
            partition=partition_key(outcome.key),
            metadata=metadata.of_materialization(stage, outcome, pipeline),
            tags=tags_of(pipeline, outcome, pointers, upstream),
        )


def checked(
    pipeline: Pipeline, stage: Stage, outcomes: Sequence[Outcome]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Check partitions, and yield the results."""
    floors = floor_check(pipeline.experiment, stage.name)
    asset = asset_key(pipeline.experiment.name, stage.name)
    yield from evaluations(asset, results_of(pipeline, stage, outcomes, floors))


def evaluations(
    asset: dg.AssetKey, results: Sequence[CheckResult]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield results of any number of partitions and checks of an asset as events."""
    for result in results:
        warns = result.severity == WARNING
        yield dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=result.check.name,
            passed=result.passed,
            severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
            description=_description(result),
            metadata=_numbers_and_problems(result),
            partition=partition_key(result.key),
        )


MAX_LISTED = 5
"""Problems that stand beside the result; a click shows more of them."""


def check_specs(
    stage: Stage, experiment: Experiment, partitions: dg.PartitionsDefinition | None
) -> list[dg.AssetCheckSpec]:
    """Return the checks of an asset, with the partitions of the asset."""
    return [
        dg.AssetCheckSpec(
            name=check.name,
            asset=asset_key(experiment.name, stage.name),
            description=f"{check.meaning} {check.no_result}".strip(),
            partitions_def=partitions,
        )
        for check in (*checks_of(stage), *floor_check(experiment, stage.name))
    ]


def _description(result: CheckResult) -> str:
    """Return what the page shows at once: the first problems, as a list where there are several."""
    problems = result.outcome.problems
    if len(problems) < 2 or result.outcome.not_checked is not None:
        return markdown(result.summary) if problems else result.summary
    return _list(problems, MAX_LISTED)


def _numbers_and_problems(result: CheckResult) -> dict[str, Any]:
    problems = result.outcome.problems
    metadata: dict[str, Any] = {k: round(v, DIGITS) for k, v in result.outcome.numbers.items()}
    if result.outcome.not_checked is None:
        metadata["problems"] = len(problems)
    if problems:
        metadata["found"] = dg.MetadataValue.md(_list(problems, MAX_EXAMPLES))
    return metadata


def _list(problems: Sequence[str], most: int) -> str:
    """Return the first problems as Markdown, and how many more there are."""
    lines = [f"- {markdown(' '.join(problem.split()))}" for problem in problems[:most]]
    rest = len(problems) - most
    return "\n".join(lines + ([f"- and {rest} more"] if rest > 0 else []))
