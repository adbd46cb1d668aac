"""The job that tells Dagster of what the store holds, for an instance that did not see it made.

A store that was evaluated elsewhere, or whose Dagster instance was deleted, shows everything as
never materialized. Nothing is computed, and no evaluation is written.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

from collections.abc import Iterator

import dagster as dg

from rag_assets.assets.evaluation_steps import StaleStages
from rag_assets.assets.job import JobEvent, stages_brought_up_to_date
from rag_assets.assets.names import plain_name, report_job_name
from rag_assets.assets.reported_versions import ReportedVersions, Upstream
from rag_assets.assets.resources import Resources, resources_of
from rag_assets.assets.servers import failure
from rag_assets.assets.upstream import upstream_in_job
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.registry import open_experiment
from rag_assets.store.settings import StoreSettings


def report_job(experiment: Experiment, settings: StoreSettings) -> dg.JobDefinition:
    """Return the job; it reads the files of the experiment as they are then."""
    resources = Resources(experiment)

    @dg.op(
        name=f"report_{plain_name(experiment)}",
        description="Report what is up to date and was not reported.",
        out=dg.Out(dg.Nothing),
        required_resource_keys=resources.names,
    )
    def report_experiment(context: dg.OpExecutionContext) -> Iterator[JobEvent]:
        try:
            now = open_experiment(experiment.source, resources.settings(context))
            with resources.opened(context, now) as pipeline, pipeline.evaluating():
                upstream = upstream_in_job(context, pipeline.experiment)
                stages = unreported(pipeline, upstream)
                yield from stages_brought_up_to_date(context, pipeline, stages, upstream)
        except RagAssetsError as error:
            raise failure(error) from error
        yield dg.Output(None)

    @dg.job(
        name=report_job_name(experiment),
        description=(
            "Tell Dagster what the store holds; compute nothing.\n"
            "For a store that was evaluated elsewhere."
        ),
        executor_def=dg.in_process_executor,
        resource_defs=dict(resources_of(experiment, settings)),
    )
    def job() -> None:
        report_experiment()

    return job


def unreported(pipeline: Pipeline, upstream: Upstream) -> StaleStages:
    """Yield each asset with its partitions that are up to date and that Dagster does not know."""
    for stage in pipeline.stages():
        reported = ReportedVersions(pipeline, upstream)
        keys = [
            key
            for key in stage.keys(pipeline.experiment)
            if pipeline.current(key) is not None and not reported.is_current(key)
        ]
        if keys:
            yield stage.name, keys
