"""How many steps of a run work at a time, when they are tried again, when a result is late.

And how often sensors look, which an environment variable of a code location says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise

import dagster as dg

from rag_assets.engine.stage import Stage
from rag_assets.errors import NotServed, RagAssetsError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.servers.failures import ServerFailure

SERVER_KINDS = frozenset({"http", "openai", "qdrant"})
"""Kinds of stages whose model is behind a server."""

MODEL_KINDS = frozenset({"sentence-transformers", "transformers"})
"""Kinds of stages whose model is loaded by the process itself."""

MODEL_POOL = "rag_assets_model"
SERVER_POOL = "rag_assets_server"

MAX_RETRIES = 3
RETRY_SECONDS = 60
"""Before the first retry; before each further one twice as long."""


def retry_policy(stages: Iterable[Stage], experiment: Experiment) -> dg.RetryPolicy | None:
    """Return when a step is tried again: later and later, where it asks a server; else never."""
    if not any(stage.kinds_of(experiment) & SERVER_KINDS for stage in stages):
        return None
    return dg.RetryPolicy(
        max_retries=MAX_RETRIES, delay=RETRY_SECONDS, backoff=dg.Backoff.EXPONENTIAL
    )


def pool_of(stage: Stage, experiment: Experiment) -> str | None:
    """Return the pool of an asset that loads a model, or asks a server; None for all others."""
    kinds = stage.kinds_of(experiment)
    if kinds & MODEL_KINDS:
        return MODEL_POOL
    return SERVER_POOL if kinds & SERVER_KINDS else None


DATED = "leaderboard"
"""The stage that every run of a job with a schedule reports, also when nothing has changed."""


def freshness_policy(stage: Stage, experiment: Experiment) -> dg.FreshnessPolicy | None:
    """Return when Dagster calls a result late: where there is a schedule, that of the leaderboard.

    Every run of the job reports it. It is late when more than a day has passed since it was due:
    the longest time between two days of the schedule, and a day.
    """
    schedule = experiment.config.schedule
    if schedule is None or stage.name != DATED:
        return None
    days = " ".join(["0", "0", *schedule.cron.split()[2:]])
    return dg.FreshnessPolicy.time_window(fail_window=_longest_wait(days) + timedelta(days=1))


@cache
def _longest_wait(days: str) -> timedelta:
    """Return the longest time between two days of a cron expression; most schedules share one."""
    dates = dg.TimeWindowPartitionsDefinition(
        start="2024-01-01", end="2028-01-01", fmt="%Y-%m-%d", cron_schedule=days
    ).get_partition_keys()
    begins = [datetime.fromisoformat(date) for date in dates]
    return max((after - before for before, after in pairwise(begins)), default=timedelta(days=366))


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


def sensor_seconds() -> int:
    """Return the least time between two looks: ``RAG_ASSETS_SENSOR_SECONDS``, else 30.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    text = os.environ.get(SENSOR_VARIABLE) or str(DEFAULT_SECONDS)
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        problem = f"must be a whole number of seconds, 1 or more; found {text!r}"
        raise UsageError(f"{SENSOR_VARIABLE} {problem}")
    return int(text)
