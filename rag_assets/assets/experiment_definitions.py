"""All that Dagster shows of one experiment: assets, job, schedule, sensors and automation.

Declarative automation lets Dagster request a partition when it, and it alone, is out of date.
Dagster's own conditions look at events, so they know nothing of edited files, of configuration, or
of which part of an input matters. The pipeline knows all three. So the condition asks it the
question that `rag-assets evaluate` asks, for those partitions whose inputs are up to date.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import dagster as dg

from rag_assets.assets.alerts import alert_sensors
from rag_assets.assets.build import PipelineFactory, build_assets
from rag_assets.assets.execution import executor_of, sensor_seconds
from rag_assets.assets.job import evaluation_job, report_job
from rag_assets.assets.names import described, partition_key, plain_name
from rag_assets.assets.reported_versions import ReportedVersions, read_keys
from rag_assets.assets.resources import Resources, resources_of
from rag_assets.assets.sensors import sources_sensor
from rag_assets.code_versions.versions import code_versions
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.plain_text import markdown
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint
from rag_assets.store.settings import StoreSettings


def schedules_of(experiment: Experiment, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the schedule of the experiment's job, or nothing where the YAML has none.

    It is on as soon as it is loaded, unless the YAML says ``running: false``: who wrote the time
    wants it to happen, and a second switch somewhere else would be forgotten. It can be stopped in
    the UI.
    """
    schedule = experiment.config.schedule
    if schedule is None:
        return []
    source = markdown(str(experiment.source))
    return [
        dg.ScheduleDefinition(
            name=f"{plain_name(experiment)}_schedule",
            job=job,
            cron_schedule=schedule.cron,
            execution_timezone=schedule.timezone,
            description=f"Evaluate {experiment.name} again: `schedule` in {source}.",
            default_status=dg.DefaultScheduleStatus.RUNNING
            if schedule.running
            else dg.DefaultScheduleStatus.STOPPED,
        )
    ]


class Outlook:
    """An experiment as one tick sees it: its files are looked at once, for all assets."""

    def __init__(self, open_pipeline: PipelineFactory) -> None:
        """Look at nothing yet."""
        self._open_pipeline = open_pipeline
        self._seen: tuple[datetime, Pipeline, ReportedVersions] | None = None

    def at(self, tick: datetime) -> tuple[Pipeline, ReportedVersions]:
        """Return the pipeline of a tick, and what Dagster was told until then."""
        if self._seen is None or self._seen[0] != tick:
            pipeline = self._open_pipeline()
            self._seen = (tick, pipeline, ReportedVersions(pipeline))
        return self._seen[1:]


class Outdated(dg.AutomationCondition[dg.AssetKey]):
    """True for a partition that must be materialized, once Dagster knows all its inputs.

    A partition is asked for once for each state that it should have, so one that fails is asked
    for again when something changes.
    """

    def __init__(self, outlook: Outlook) -> None:
        """Share the look at the experiment with its other assets."""
        self._outlook = outlook

    @property
    def name(self) -> str:
        """The name in the UI."""
        return "out of date, all inputs up to date"

    def evaluate(
        self, context: dg.AutomationContext[dg.AssetKey]
    ) -> dg.AutomationResult[dg.AssetKey]:
        """Return the partitions to ask for; the cursor holds what was asked for before."""
        asked = json.loads(context.cursor or "{}")
        wanted = self._wanted(context)
        candidates = context.candidate_subset
        partitions = candidates.expensively_compute_asset_partitions()
        names = {asset_partition.partition_key or "" for asset_partition in partitions}
        ask = {name for name in names & set(wanted) if wanted[name] != asked.get(name)}
        if candidates.is_partitioned:
            true = candidates.compute_intersection_with_partition_keys(ask)
        else:
            true = candidates if ask else context.get_empty_subset()
        kept = {n: state for n, state in wanted.items() if n in ask or state == asked.get(n)}
        return dg.AutomationResult(context, true, cursor=json.dumps(kept))

    def _wanted(self, context: dg.AutomationContext[dg.AssetKey]) -> dict[str, str]:
        """Return partition -> the state that it should have, where it should be made now."""
        pipeline, reported = self._outlook.at(context.evaluation_time)
        wanted = {}
        try:
            for key in STAGES[context.key.path[-1]].keys(pipeline.experiment):
                state = _wanted_state(key, pipeline, reported)
                if state is not None:
                    wanted[partition_key(key) or ""] = state
        except RagAssetsError as error:
            context.log.warning(str(error))
        return wanted


def _wanted_state(key: ArtifactKey, pipeline: Pipeline, reported: ReportedVersions) -> str | None:
    """Return the state that a partition should be brought to now; None: nothing is to be done.

    It is the same before the partition is computed and while that is not yet reported.
    """
    inputs = read_keys(pipeline.experiment, key)
    if reported.is_current(key) or not all(reported.is_current(parent) for parent in inputs):
        return None
    recipe = pipeline.recipe(key)
    if recipe is None:
        return None
    parents = [pipeline.data_version(pipeline.artifact(parent), parent) for parent in inputs]
    return fingerprint([recipe.fingerprint, parents])


def automated(
    assets: Sequence[dg.AssetsDefinition], open_pipeline: PipelineFactory
) -> list[dg.AssetsDefinition]:
    """Return the assets of one experiment, each requested when it is out of date."""
    outdated = Outdated(Outlook(open_pipeline))
    condition = ~dg.AutomationCondition.in_progress() & outdated
    return list(
        dg.map_asset_specs(
            lambda spec: spec.replace_attributes(automation_condition=condition), assets
        )
    )


def automation_sensor(
    experiment: Experiment, assets: Sequence[dg.AssetsDefinition]
) -> dg.SensorDefinition:
    """Return the sensor that evaluates the conditions of these assets; off until it is started."""
    with warnings.catch_warnings():
        # Known: a condition of one's own, which the code server must evaluate, is beta in 1.13.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.AutomationConditionSensorDefinition(
            name=f"{plain_name(experiment)}_automation",
            target=[key for asset in assets for key in asset.keys],
            minimum_interval_seconds=sensor_seconds(),
            description=f"Brings the partitions of {experiment.name} up to date, layer by layer.",
            use_user_code_server=True,
        )


def definitions_of(
    experiment: Experiment,
    settings: StoreSettings,
    executor: dg.ExecutorDefinition | None = None,
) -> dg.Definitions:
    """Return the definitions of one experiment.

    Args:
        experiment: the experiment.
        settings: where its results are kept.
        executor: what runs the steps of its assets; by default what ``RAG_ASSETS_EXECUTOR`` says.
            A code location has one executor: experiments that are merged need the same object.

    Raises:
        UsageError: ``RAG_ASSETS_SENSOR_SECONDS`` is no number of seconds, or
            ``RAG_ASSETS_EXECUTOR`` is no executor, or ``RAG_ASSETS_REPORTS`` no address.
    """
    open_pipeline = partial(Pipeline, experiment, settings)
    versions = code_versions(settings.code_versions)
    assets = automated(
        build_assets(experiment, open_pipeline, Resources(experiment), versions), open_pipeline
    )
    job = evaluation_job(experiment, settings)
    return dg.Definitions(
        assets=described(assets, experiment, settings),
        jobs=[job, report_job(experiment, settings)],
        schedules=schedules_of(experiment, job),
        sensors=[
            sources_sensor(experiment, settings, job),
            automation_sensor(experiment, assets),
            *alert_sensors(experiment, settings),
        ],
        resources=resources_of(experiment, settings),
        executor=executor or executor_of(None),
    )
