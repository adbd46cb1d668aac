"""The sensor that starts an evaluation when what an experiment is made from has changed.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import json
from datetime import UTC, datetime
from typing import NamedTuple

import dagster as dg

from rag_assets.assets.names import plain_name
from rag_assets.assets.polling_intervals import sensor_seconds
from rag_assets.errors import RagAssetsError
from rag_assets.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.registry import open_experiment
from rag_assets.pipeline.source_state import SourceState, source_state
from rag_assets.store.canonical import fingerprint
from rag_assets.store.settings import StoreSettings


class Seen(NamedTuple):
    """The cursor: what was seen last, and since when it is so."""

    digest: str = ""
    since: str = ""


def sources_sensor(
    experiment: Experiment, settings: StoreSettings, job: dg.JobDefinition
) -> dg.SensorDefinition:
    """Return the sensor on documents, queries, qrels, files of the YAML, the YAML and models.

    Off until it is started: loading a code location must compute nothing by itself. Its first look
    starts an evaluation, which computes nothing where all is up to date.
    """

    @dg.sensor(
        name=f"{plain_name(experiment)}_sources",
        job=job,
        minimum_interval_seconds=sensor_seconds(),
        description=f"Evaluates {experiment.name} when its files or models change in content.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            state = source_state(Pipeline(open_experiment(experiment.source, settings), settings))
        except RagAssetsError as error:
            return dg.SkipReason(str(error))
        return _decide(state, _read(context.cursor))

    return sensor


def _decide(state: SourceState, seen: Seen) -> dg.SensorResult | dg.SkipReason:
    if state.digest == seen.digest:
        return dg.SkipReason(f"{_looked_at(state)}: nothing changed since {seen.since}")
    now = Seen(state.digest, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    # Not the digest alone: a change that is taken back is another evaluation of an old state.
    run_key = fingerprint([seen, state.digest])
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key=run_key)], cursor=json.dumps(now))


def _looked_at(state: SourceState) -> str:
    files = f"{state.files} file{'' if state.files == 1 else 's'}"
    return f"{files} and {', '.join(state.models)}" if state.models else files


def _read(cursor: str | None) -> Seen:
    """Return the cursor; one that this program did not write is nothing seen."""
    try:
        digest, since = json.loads(cursor or "")
    except (ValueError, TypeError):
        return Seen()
    return Seen(str(digest), str(since))
