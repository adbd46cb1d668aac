"""Assets that ask a server or load a model: when they are tried again, and how many at a time."""

from __future__ import annotations

import dagster as dg

from rag_assets.assets.polling_intervals import retry_seconds
from rag_assets.engine.stage import Stage
from rag_assets.errors import NotServed, RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stages import STAGES
from rag_assets.servers.failures import ServerFailure

SERVER_KINDS = frozenset({"http", "openai", "qdrant"})
"""Kinds of stages whose model is behind a server."""

MODEL_KINDS = frozenset({"sentence-transformers", "transformers"})
"""Kinds of stages whose model is loaded by the process itself."""

MODEL_POOL = "rag_assets_model"
SERVER_POOL = "rag_assets_server"

MOST_RETRIES = 3


def retry_policy_of(stage: Stage, experiment: Experiment) -> dg.RetryPolicy | None:
    """Return when an asset is tried again: later and later, where it asks a server; else never."""
    if not stage.kinds_of(experiment) & SERVER_KINDS:
        return None
    return dg.RetryPolicy(
        max_retries=MOST_RETRIES, delay=retry_seconds(), backoff=dg.Backoff.EXPONENTIAL
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
