"""The job of one step that does what `rag-assets evaluate` does, for schedules and sensors.

It suits a small machine: a backfill of the assets starts a process for every part of the graph,
this job one in all. Without `from __future__ import annotations`: Dagster reads the annotation of
`context` itself.
"""

from collections.abc import Mapping

import dagster as dg

from rag_assets.assets.evaluate import Work, evaluate
from rag_assets.assets.names import plain_name
from rag_assets.errors import RagAssetsError
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.store.settings import StoreSettings

TRIGGERS = {"dagster/schedule_name": "schedule", "dagster/sensor_name": "sensor"}
"""Run tag -> what started the run; a run with neither was started by a person."""


def job_name(experiment: Experiment) -> str:
    """Return ``<experiment>_evaluate``."""
    return f"{plain_name(experiment)}_evaluate"


def evaluation_job(experiment: Experiment, settings: StoreSettings) -> dg.JobDefinition:
    """Return the job that brings an experiment up to date and makes it the current state."""

    @dg.op(
        name=f"evaluate_{plain_name(experiment)}",
        description="Compute what is not up to date, in this process.",
        out=dg.Out(dg.Nothing),
    )
    def evaluate_experiment(context: dg.OpExecutionContext) -> None:
        try:
            shown = _evaluated(context, experiment, settings)
        except RagAssetsError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        context.add_output_metadata(shown)

    @dg.job(
        name=job_name(experiment),
        description=f"What `rag-assets evaluate {experiment.source}` does, recorded here.",
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        evaluate_experiment()

    return job


def _evaluated(
    context: dg.OpExecutionContext, experiment: Experiment, settings: StoreSettings
) -> dict[str, dg.MetadataValue]:
    """Evaluate the experiment as its files are now, not as they were when it was loaded."""
    # Not needed to load a code location: Dagster's storage, and what writes the report.
    from rag_assets.assets.instance import kept
    from rag_assets.reporting.html import write_report
    from rag_assets.reporting.result import EvaluationResult

    pipeline = Pipeline(load_experiment(experiment.source), settings)
    selection = Selection.of(pipeline.experiment)
    with kept(context.instance) as instance:
        trigger = _trigger(context.run.tags)
        work = evaluate(pipeline, selection, trigger=trigger, instance=instance)
    report = write_report(EvaluationResult(pipeline.store.root, work.evaluation))
    context.log.info(
        f"{work.evaluation.evaluation_id}: {work.computed} partitions computed, "
        f"{work.reused} reused, {work.seconds:.1f} s"
    )
    return {**_shown(work), "report": dg.MetadataValue.path(report)}


def _shown(work: Work) -> dict[str, dg.MetadataValue]:
    return {
        "evaluation": dg.MetadataValue.text(work.evaluation.evaluation_id),
        "computed": dg.MetadataValue.int(work.computed),
        "reused": dg.MetadataValue.int(work.reused),
        "complete": dg.MetadataValue.bool(work.evaluation.complete),
        "seconds": dg.MetadataValue.float(round(work.seconds, 3)),
    }


def _trigger(tags: Mapping[str, str]) -> str:
    """Return ``schedule``, ``sensor`` or ``ui``."""
    return next((trigger for tag, trigger in TRIGGERS.items() if tag in tags), "ui")
