"""The job of one step that brings an experiment up to date, as `rag-assets evaluate` does.

Schedules and sensors start it, and the command line records its work as a run of it. It suits a
small machine: a backfill of the assets starts a process for every part of the graph, this job one
in all.

Without `from __future__ import annotations`: Dagster reads the annotation of `context`
itself.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import dagster as dg
from pydantic import Field

from rag_assets.assets.evaluation_steps import StaleStages, begin, finish, stale_stages
from rag_assets.assets.execution import DATED, failure, retry_policy
from rag_assets.assets.names import plain_name
from rag_assets.assets.reported_versions import Upstream
from rag_assets.assets.reports import Event, reports, upstream_as_reported, upstream_in_job
from rag_assets.errors import RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.failed_queries import ask_revisions, try_again
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES
from rag_assets.plain_text import markdown
from rag_assets.signal_handlers import is_interrupt, sigterm_guard
from rag_assets.store.settings import StoreSettings

TRIGGERS = {"dagster/schedule_name": "schedule", "dagster/sensor_name": "sensor"}
"""Run tag -> what started the run; a run with neither was started by a person."""

TRIGGER_TAG = "rag_assets/trigger"
"""Run tag of a run that an evaluation recorded -> what started the evaluation."""

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Keeps Dagster's events out of the terminal: they are in the instance."""

JobEvent = Event | dg.Output[Any]
"""What the step yields: an event a partition, and its output at the end."""


class EvaluateConfig(dg.Config):
    """Run configuration of the job: what `rag-assets evaluate` has as options."""

    retrievers: list[str] = Field([], description="Evaluate these only; default: all.")
    top_k: list[int] = Field([], description="Evaluate these cut-offs only; default: all.")
    retry_failed: bool = Field(
        False,
        description="Repeat requests that a language model or reranking server left unanswered.",
    )


Body = Callable[[dg.OpExecutionContext, EvaluateConfig], Iterator[JobEvent]]
"""The work of the step."""


def job_name(experiment: str) -> str:
    """Return ``<experiment>_evaluate``."""
    return f"{plain_name(experiment)}_evaluate"


def one_step_job(
    name: str,
    source: Path,
    body: Body,
    retry_policy: dg.RetryPolicy | None = None,
    ray: str | None = None,
) -> dg.JobDefinition:
    """Return the job with the work that it is to do, and when that is tried again.

    ``ray`` is the key of a resource that it needs.
    """
    command = f"rag-assets evaluate {markdown(str(source))}"

    @dg.op(
        name=f"evaluate_{plain_name(name)}",
        description="Compute what is out of date, in this process.",
        out=dg.Out(dg.Nothing),
        retry_policy=retry_policy,
        required_resource_keys={ray} if ray else None,
    )
    def evaluate_experiment(
        context: dg.OpExecutionContext, config: EvaluateConfig
    ) -> Iterator[JobEvent]:
        yield from body(context, config)

    @dg.job(
        name=job_name(name),
        description=f"Compute what is out of date:\nas `{command}`.",
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        evaluate_experiment()

    return job


def evaluation_job(
    experiment: Experiment, settings: StoreSettings, ray: str | None = None
) -> dg.JobDefinition:
    """Return the job that a code location has; ``ray`` is the key of a resource that it needs.

    It evaluates the experiment as its files are then, not as they were when it was loaded.
    """
    body = partial(evaluate_source, source=experiment.source, settings=settings)
    stages = (stage for stage in STAGES.values() if stage.keys(experiment))
    policy = retry_policy(stages, experiment)
    return one_step_job(experiment.name, experiment.source, body, policy, ray)


def stages_brought_up_to_date(
    context: dg.OpExecutionContext, pipeline: Pipeline, stages: StaleStages, upstream: Upstream
) -> Iterator[Event]:
    """Bring stage after stage up to date, and yield what is to be told of each partition.

    Raises:
        RagAssetsError: what a stage raised.
    """
    for asset, keys in stages:
        before = pipeline.n_computed
        yield from reports(pipeline, STAGES[asset], keys, context.instance, upstream)
        computed = pipeline.n_computed - before
        context.log.info(f"{asset}: {computed} computed, {len(keys) - computed} reused")


def evaluate_source(
    context: dg.OpExecutionContext, config: EvaluateConfig, source: Path, settings: StoreSettings
) -> Iterator[JobEvent]:
    """Evaluate the experiment at a path as it is now; yield what is to be told."""
    # Not needed to load a code location.
    from rag_assets.analysis.result import EvaluationResult
    from rag_assets.report.html import write_report

    started = datetime.now(UTC)
    trigger = next((trigger for tag, trigger in TRIGGERS.items() if tag in context.run.tags), "ui")
    try:
        pipeline = Pipeline(open_experiment(source, settings), settings)
        upstream = upstream_in_job(context, pipeline.experiment)
        with pipeline.evaluating():
            selection = Selection.of(pipeline.experiment, config.retrievers, config.top_k)
            if config.retry_failed:
                context.log.info(f"retrying: {try_again(pipeline)} failed queries")
            if trigger != "sensor":  # it saw files change, and asks nobody
                ask_revisions(pipeline, selection.retrievers)
            wanted = begin(pipeline, selection)
            always = DATED if pipeline.experiment.config.schedule else ""
            stages = stale_stages(pipeline, wanted, upstream, always)
            yield from stages_brought_up_to_date(context, pipeline, stages, upstream)
            work = finish(
                pipeline, wanted, started=started, trigger=trigger, runs=(context.run.run_id,)
            )
        report = write_report(EvaluationResult(pipeline.root, work.evaluation))
    except RagAssetsError as error:
        raise failure(error) from error
    context.log.info(
        f"{work.evaluation.evaluation_id}: {work.computed} partitions computed, "
        f"{work.reused} reused, {work.seconds:.1f} s"
    )
    facts = {
        "evaluation": dg.MetadataValue.text(work.evaluation.evaluation_id),
        "computed": dg.MetadataValue.int(work.computed),
        "reused": dg.MetadataValue.int(work.reused),
        "complete": dg.MetadataValue.bool(work.evaluation.complete),
        "seconds": dg.MetadataValue.float(round(work.seconds, 3)),
        "report": dg.MetadataValue.path(report),
    }
    yield dg.Output(None, metadata=facts)


def record_run(
    pipeline: Pipeline, stages: StaleStages, instance: dg.DagsterInstance, trigger: str
) -> str:
    """Bring partitions up to date and report them, in a run of this process; return its id.

    Raises:
        RagAssetsError: what a stage raised; the run has failed then, with all that came before.
    """

    def body(context: dg.OpExecutionContext, _: EvaluateConfig) -> Iterator[JobEvent]:
        upstream = upstream_as_reported(pipeline.experiment, instance)
        todo = unless_interrupted(stages)
        yield from stages_brought_up_to_date(context, pipeline, todo, upstream)
        yield dg.Output(None)

    with _quiet(), sigterm_guard(), _interruptible() as unless_interrupted:
        job = one_step_job(pipeline.experiment.name, pipeline.experiment.source, body)
        result = job.execute_in_process(
            instance=instance, tags={TRIGGER_TAG: trigger}, run_config=_QUIET
        )
    return result.run_id


@contextmanager
def _interruptible() -> Iterator[Callable[[StaleStages], StaleStages]]:
    """Let Ctrl-C and SIGTERM leave a run as the exception that Ctrl-C is everywhere else.

    An interrupt that comes while Python takes an object apart is printed and forgotten by Python;
    the next stage is then not begun.
    """
    interrupts = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)
    forgotten: list[object] = []
    usual = sys.unraisablehook

    def hook(failure: "sys.UnraisableHookArgs") -> None:
        if issubclass(failure.exc_type, interrupts):
            forgotten.append(failure.exc_type)
        else:
            usual(failure)

    def unless_interrupted(stages: StaleStages) -> StaleStages:
        for stage in stages:
            if forgotten:
                raise KeyboardInterrupt
            yield stage

    sys.unraisablehook = hook
    try:
        yield unless_interrupted
    except dg.DagsterExecutionInterruptedError as error:
        raise KeyboardInterrupt from error
    except RuntimeError as error:
        if not is_interrupt(error):
            raise
        raise KeyboardInterrupt from error
    finally:
        sys.unraisablehook = usual
    if forgotten:
        raise KeyboardInterrupt


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("dagster")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stderr(_WithoutEventLog(sys.stderr)):
            yield
    finally:
        logger.setLevel(level)


class _WithoutEventLog:
    """A stream without the lines that Dagster itself prints when its event log cannot be written.

    The error is raised as well, and is one line then.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text.startswith("Exception while writing logger call to event log"):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a stream has)
        return getattr(self._stream, name)
