"""How many steps of a run work at a time, and when they are tried again.

With the settings of a code location that say so: environment variables ``RAG_ASSETS_...``.
"""

from __future__ import annotations

import os

import dagster as dg

from rag_assets.engine.stage import Stage
from rag_assets.errors import NotServed, RagAssetsError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stages import STAGES
from rag_assets.servers.failures import ServerFailure

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
