"""Records what an evaluation does in this process as one Dagster run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO

import dagster as dg

from rag_assets.assets.evaluate import StaleStages
from rag_assets.assets.job import JobEvent, Wish, one_step_job, stages_brought_up_to_date
from rag_assets.kept_signals import is_interrupt, kept_sigterm
from rag_assets.pipeline.pipeline import Pipeline

TRIGGER_TAG = "rag_assets/trigger"

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Keeps Dagster's events out of the terminal: they are in the instance."""


def record_run(
    pipeline: Pipeline, stages: StaleStages, instance: dg.DagsterInstance, trigger: str
) -> str:
    """Bring partitions up to date and report them, in a run of this process; return its id.

    Raises:
        RagAssetsError: what a stage raised; the run has failed then, with all that came before.
    """

    def body(context: dg.OpExecutionContext, _: Wish) -> Iterator[JobEvent]:
        yield from stages_brought_up_to_date(context, pipeline, unless_interrupted(stages))
        yield dg.Output(None)

    with _quiet(), kept_sigterm(), _interruptible() as unless_interrupted:
        result = one_step_job(pipeline.experiment, body).execute_in_process(
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

    def hook(found: sys.UnraisableHookArgs) -> None:
        if issubclass(found.exc_type, interrupts):
            forgotten.append(found.exc_type)
        else:
            usual(found)

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
