"""All that Dagster shows of one experiment: assets, job, schedule and sensors."""

from __future__ import annotations

from functools import partial

import dagster as dg

from rag_assets.assets.alerts import alert_sensors
from rag_assets.assets.automation import automated, automation_sensor
from rag_assets.assets.build import build_assets
from rag_assets.assets.executors import executor_of
from rag_assets.assets.job import evaluation_job
from rag_assets.assets.resources import Resources, resources_of
from rag_assets.assets.schedules import schedules_of
from rag_assets.assets.sensors import sources_sensor
from rag_assets.code_versions.versions import code_versions
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.settings import StoreSettings


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
            ``RAG_ASSETS_EXECUTOR`` is no executor.
    """
    open_pipeline = partial(Pipeline, experiment, settings)
    versions = code_versions(settings.code_versions)
    assets = automated(
        build_assets(experiment, open_pipeline, Resources(experiment), versions), open_pipeline
    )
    job = evaluation_job(experiment, settings)
    return dg.Definitions(
        assets=assets,
        jobs=[job],
        schedules=schedules_of(experiment, job),
        sensors=[
            sources_sensor(experiment, settings, job),
            automation_sensor(experiment, assets),
            *alert_sensors(experiment),
        ],
        resources=resources_of(experiment, settings),
        executor=executor or executor_of(None),
    )
