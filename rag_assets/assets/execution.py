"""What runs the steps of a run, how many at a time, and when they are tried again.

With the settings of a code location that say so: environment variables ``RAG_ASSETS_...``.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import import_module

import dagster as dg

from rag_assets.engine.stage import Stage
from rag_assets.errors import NotServed, RagAssetsError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stages import STAGES
from rag_assets.servers.failures import ServerFailure

EXECUTOR = "RAG_ASSETS_EXECUTOR"

PRELOADED = (
    "rag_assets.assets.experiment_definitions",
    "rag_assets.assets.instance",
    "upath.registry",
)
"""Imported once a run; the processes of its steps are forked from there, so none imports again.

The last two bring what Dagster imports with an instance and with an IO manager.
"""


def executor_of(text: str | None, *, where: str = EXECUTOR) -> dg.ExecutorDefinition | None:
    """Return the executor of a code location; equal texts give the same object.

    Args:
        text: ``in_process``: one step after the other, in the process of the run.
            ``multiprocess``: a process for each step, ``multiprocess(n)`` for n at a time; without
            n as many as there are cores. ``module:name``: an executor of one's own, or of a
            package, such as a configured ``dask_executor``. None or empty is what
            ``RAG_ASSETS_EXECUTOR`` says, and without it Dagster's default: ``multiprocess``, each
            process from scratch.
        where: what gives the text, for the message.

    Raises:
        UsageError: it is none of these, or the module has no such executor.
    """
    if not text:
        text, where = os.environ.get(EXECUTOR), EXECUTOR
    if not text:
        return None
    if text == "in_process":
        return dg.in_process_executor
    match = re.fullmatch(r"multiprocess(?:\(([1-9][0-9]{0,3})\))?", text, re.ASCII)
    if match is not None:
        return _multiprocess(int(match[1] or 0))
    if re.fullmatch(r"[\w.]+:\w+", text):
        return _imported(text, where)
    raise UsageError(
        f"{where} must be in_process, multiprocess, multiprocess(n), n steps at a time, or "
        f"module:name of an executor; found {text!r}"
    )


@cache
def _multiprocess(limit: int) -> dg.ExecutorDefinition:
    """Return the executor with ``limit`` steps at a time; 0 is one for each core."""
    start = {"forkserver": {"preload_modules": [*PRELOADED]}}
    return dg.multiprocess_executor.configured({"max_concurrent": limit, "start_method": start})


def _imported(text: str, where: str) -> dg.ExecutorDefinition:
    module, _, name = text.partition(":")
    try:
        executor = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{where}: {text!r} cannot be imported: {error}") from error
    if not isinstance(executor, dg.ExecutorDefinition):
        raise UsageError(f"{where}: {text!r} is not an executor, it is {type(executor).__name__}")
    return executor


SERVER_KINDS = frozenset({"http", "openai", "qdrant"})
"""Kinds of stages whose model is behind a server."""

MODEL_KINDS = frozenset({"sentence-transformers", "transformers"})
"""Kinds of stages whose model is loaded by the process itself."""

MODEL_POOL = "rag_assets_model"
SERVER_POOL = "rag_assets_server"

MAX_RETRIES = 3


def retry_policy_of(stage: Stage, experiment: Experiment) -> dg.RetryPolicy | None:
    """Return when an asset is tried again: later and later, where it asks a server; else never."""
    if not stage.kinds_of(experiment) & SERVER_KINDS:
        return None
    return dg.RetryPolicy(
        max_retries=MAX_RETRIES, delay=retry_seconds(), backoff=dg.Backoff.EXPONENTIAL
    )


def retry_policy_of_all(experiment: Experiment) -> dg.RetryPolicy | None:
    """Return when a step that does the work of all assets is tried again."""
    used = (stage for stage in STAGES.values() if stage.keys(experiment))
    policies = (retry_policy_of(stage, experiment) for stage in used)
    return next((policy for policy in policies if policy is not None), None)


def pool_of(stage: Stage, experiment: Experiment) -> str | None:
    """Return the pool of an asset that loads a model, or asks a server; None for all others."""
    kinds = stage.kinds_of(experiment)
    if kinds & MODEL_KINDS:
        return MODEL_POOL
    return SERVER_POOL if kinds & SERVER_KINDS else None


def without_foreign(error: RagAssetsError) -> RagAssetsError:
    """Return an error after its chain is cut before the first link that is none of ours.

    Dagster stores an error with all that led to it, and what libraries raise may hold a request, an
    answer or a key. Our own lines say what was found.
    """
    last: BaseException = error
    while isinstance(led := last.__cause__ or last.__context__, RagAssetsError | ServerFailure):
        last = led
    last.__cause__ = last.__context__ = None
    return error


def failure(error: RagAssetsError) -> dg.Failure:
    """Return an expected error as Dagster has it; tried again only where that can help."""
    without_foreign(error)
    return dg.Failure(str(error), allow_retries=isinstance(error, NotServed))


SENSOR_VARIABLE = "RAG_ASSETS_SENSOR_SECONDS"
DEFAULT_SECONDS = 30

RETRY_VARIABLE = "RAG_ASSETS_RETRY_SECONDS"
DEFAULT_RETRY_SECONDS = 60


def sensor_seconds() -> int:
    """Return the least time between two looks: ``RAG_ASSETS_SENSOR_SECONDS``, else 30.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    return _seconds(SENSOR_VARIABLE, DEFAULT_SECONDS)


def retry_seconds() -> int:
    """Return the wait before the first retry: ``RAG_ASSETS_RETRY_SECONDS``, else 60.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    return _seconds(RETRY_VARIABLE, DEFAULT_RETRY_SECONDS)


def _seconds(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{variable} must be a whole number of seconds, 1 or more; found {text!r}")
    return int(text)
