"""All that Dagster shows of one experiment: assets, the job, its schedule and its sensors.

A sensor starts the job when what the experiment is made from has changed: its files by content, and
its models by weights.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from rag_assets.assets.build import build_assets
from rag_assets.assets.execution import sensor_seconds
from rag_assets.assets.job import evaluation_job
from rag_assets.assets.names import plain_name
from rag_assets.assets.resources import RagAssets
from rag_assets.code_versions.versions import code_versions
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.yaml_file import read_yaml
from rag_assets.models.model_names import local_model
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.plain_text import markdown
from rag_assets.store.canonical import fingerprint
from rag_assets.store.settings import StoreSettings


def schedules_of(experiment: Experiment, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the schedule of the experiment's job, or nothing where the YAML has none.

    It is on as soon as it is loaded, unless the YAML says ``running: false``: who wrote the time
    wants it to happen, and a second switch somewhere else would be forgotten. It can be stopped in
    the UI.

    Raises:
        ConfigError: Dagster does not understand its cron expression.
    """
    schedule = experiment.config.schedule
    if schedule is None:
        return []
    source = markdown(str(experiment.source))
    status = dg.DefaultScheduleStatus
    try:
        definition = dg.ScheduleDefinition(
            name=f"{plain_name(experiment.name)}_schedule",
            job=job,
            cron_schedule=schedule.cron,
            execution_timezone=schedule.timezone,
            description=f"Evaluate {experiment.name} again: `schedule` in {source}.",
            default_status=status.RUNNING if schedule.running else status.STOPPED,
        )
    except dg.DagsterInvalidDefinitionError as error:
        raise read_yaml(experiment.source).error(("schedule", "cron"), str(error)) from error
    return [definition]


def source_digest(pipeline: Pipeline) -> str:
    """Return the digest of documents, queries, qrels, files that the YAML names, YAML and models.

    Two states with one digest give the same evaluation with the same program. Of models, those on
    this machine count. Files that were hashed before and have the same size and time are not read
    again.

    Raises:
        DataError: a file cannot be read.
    """
    experiment = pipeline.experiment
    named = list(dict.fromkeys(experiment.named_files.values()))
    named += [experiment.source] if experiment.has_file else []
    options = [*experiment.retrievers.values(), *experiment.chunkings.values()]
    names = sorted({name for option in options if (name := getattr(option, "model", None))})
    models = {name: model for name in names if (model := local_model(name))}
    return fingerprint(
        {
            "sources": dict(pipeline.source_digests),
            "files": [pipeline.file_digest(file) for file in named],
            "models": {name: [model.revision, model.sha256] for name, model in models.items()},
        }
    )


def sources_sensor(
    experiment: Experiment, settings: StoreSettings, job: dg.JobDefinition
) -> dg.SensorDefinition:
    """Return the sensor on documents, queries, qrels, files of the YAML, the YAML and models.

    Off until it is started: loading a code location must compute nothing by itself. Its first look
    starts an evaluation, which computes nothing where all is up to date.
    """

    @dg.sensor(
        name=f"{plain_name(experiment.name)}_sources",
        job=job,
        minimum_interval_seconds=sensor_seconds(),
        description=f"Evaluates {experiment.name} when the content of its files or models changes.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            digest = source_digest(Pipeline(open_experiment(experiment.source, settings), settings))
        except RagAssetsError as error:
            return dg.SkipReason(str(error))
        seen, _, since = (context.cursor or "").partition(" ")
        if seen == digest:
            return dg.SkipReason(f"nothing changed since {since}")
        # Not the digest alone: a change that is taken back is another evaluation of an old state.
        run_key = fingerprint([context.cursor, digest])
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        run = dg.RunRequest(run_key=run_key)
        return dg.SensorResult(run_requests=[run], cursor=f"{digest} {now}")

    return sensor


def definitions_of(
    experiment: Experiment,
    settings: StoreSettings,
    deps: Sequence[str] = (),
    ray: str | None = None,
) -> dg.Definitions:
    """Return the definitions of one experiment, whose results are kept as ``settings`` say.

    ``deps`` and ``ray`` are those of :func:`build_defs`.

    Raises:
        UsageError: ``RAG_ASSETS_SENSOR_SECONDS`` is no number of seconds.
    """
    versions = code_versions(settings.code_versions)
    job = evaluation_job(experiment, settings, ray)
    return dg.Definitions(
        assets=build_assets(experiment, settings, versions, deps, ray),
        jobs=[job],
        schedules=schedules_of(experiment, job),
        sensors=[sources_sensor(experiment, settings, job)],
    )


def build_defs(
    path: Path | str,
    *,
    store: RagAssets | Path | str | None = None,
    deps: Sequence[str] = (),
    ray: str | None = None,
) -> dg.Definitions:
    """Return all that Dagster shows of an experiment: assets, checks, job, schedule and sensors.

    For a code location without components::

        defs = dg.Definitions.merge(
            rag_assets.build_defs("data/handbook"), dg.Definitions(assets=[...])
        )

    Its assets are named ``<experiment>/<stage>``, and others may read their tables:
    ``dg.AssetIn(["handbook", "metrics_summary"])``; see :class:`ParquetIOManager`.

    Args:
        path: as for :func:`rag_assets.load_experiment`.
        store: the folder that results are kept in, or a :class:`RagAssets`; ``RAG_ASSETS_STORE``,
            else ``data/store``, if absent.
        deps: assets of the project that bring the files of the experiment, such as
            ``["raw_pages"]``: its documents, queries and qrels depend on them. ``deps`` in its YAML
            says it for each.
        ray: key of a resource of the project, a ``RayResource`` of the package ``dagster-ray``. It
            starts or joins the cluster that ``compute: ray`` uses, before each step.

    Raises:
        UsageError: another experiment has its name in the store.
        RagAssetsError: invalid configuration, or a store that cannot be used.
    """
    settings = store.settings() if isinstance(store, RagAssets) else StoreSettings.resolve(store)
    return definitions_of(open_experiment(path, settings), settings, deps, ray)
