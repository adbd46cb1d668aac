"""The sensor that posts what failed in an experiment to an address that the user names.

The address is that of a chat, a pager, or a service of their own.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

import dagster as dg

from rag_assets.assets.job import job_name
from rag_assets.assets.names import plain_name
from rag_assets.assets.polling_intervals import sensor_seconds
from rag_assets.errors import RagAssetsError, UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.report.unjudged_newcomers import unjudged_since_anchor
from rag_assets.report.value_changes import drop_lines
from rag_assets.servers.failures import ServerFailure
from rag_assets.servers.transport import Server, Transport
from rag_assets.store.settings import StoreSettings

TIMEOUT = 10.0
"""Seconds until the whole answer is there."""


class NotDelivered(UsageError):
    """The address did not take the message."""


def place_of(address: str) -> str:
    """Return an address as it may be shown: the rest of a webhook's is its key.

    Raises:
        UsageError: it is no address.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the address of a webhook must begin with http:// or https://")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def post(address: str, message: Mapping[str, object], timeout: float = TIMEOUT) -> None:
    """Post a message as JSON; of the answer only the status counts.

    Raises:
        UsageError: the address is none.
        NotDelivered: nobody answered, or with another status than 2xx; names no more of the
            address than its host.
    """
    server = Server(address, timeout=timeout, most_bytes=0, hidden_path=True)
    place_of(address)
    import httpx2

    with Transport(httpx2, server) as transport:
        try:
            transport.post("", message)
        except ServerFailure as error:
            failure = error
        else:
            return
    raise NotDelivered(f"{server.place}: {failure}")


VARIABLE = "RAG_ASSETS_ALERT_URL"

MOST_RUNS = 100
"""Ended runs of a kind that a tick looks at; the next one goes on."""

End = Literal[dg.DagsterEventType.RUN_SUCCESS, dg.DagsterEventType.RUN_FAILURE]
ENDS: tuple[End, ...] = (dg.DagsterEventType.RUN_SUCCESS, dg.DagsterEventType.RUN_FAILURE)

WILL_RETRY_TAG = "dagster/will_retry"
"""Run tag: Dagster starts the run again, so that it failed is no news."""

Problem = Mapping[str, str | None]


Seen = list[int]
"""The cursor: of each kind of end, the id of the last event that was looked at."""


def alert_sensors(experiment: Experiment, settings: StoreSettings) -> list[dg.SensorDefinition]:
    """Return the sensor on failed checks and runs, where ``RAG_ASSETS_ALERT_URL`` is set.

    It is on as soon as it is loaded: who names an address wants to be told. What failed before its
    first look is not told. A message that is not delivered is tried again by the next tick.
    """
    if not os.environ.get(VARIABLE):
        return []

    @dg.sensor(
        name=f"{plain_name(experiment)}_alerts",
        minimum_interval_seconds=sensor_seconds(),
        description=f"Posts failed checks and runs to {VARIABLE}.",
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return _look(context, experiment, settings)

    return [sensor]


def _look(
    context: dg.SensorEvaluationContext, experiment: Experiment, settings: StoreSettings
) -> dg.SensorResult | dg.SkipReason:
    address = os.environ.get(VARIABLE)
    if not address:
        return dg.SkipReason(f"{VARIABLE} is not set")
    seen = _read(context.cursor)
    if seen is None:
        start = json.dumps(_latest(context.instance))
        return dg.SensorResult(skip_reason="tells what fails from now on", cursor=start)
    ended, now = _ended_since(seen, context.instance)
    checks = list(_failed_checks(ended, context.instance, experiment))
    runs = list(_failed_runs(ended, context.instance, experiment))
    if checks or runs:
        try:
            root = settings.store / experiment.name
            drops = drop_lines(root, settings.locks) if checks else []
            pages = unjudged_since_anchor(root, settings.locks)
            post(address, _message(experiment, checks, runs, drops, pages))
        except RagAssetsError as error:
            raise dg.Failure(str(error)) from None
    told = f"{len(checks)} failed checks and {len(runs)} failed runs"
    return dg.SensorResult(skip_reason=told, cursor=json.dumps(now))


def _ended_since(seen: Seen, instance: dg.DagsterInstance) -> tuple[list[dg.EventLogRecord], Seen]:
    ended: list[dg.EventLogRecord] = []
    now: Seen = []
    for kind, last in zip(ENDS, seen, strict=True):
        later = dg.RunStatusChangeRecordsFilter(kind, after_storage_id=last)
        records = instance.fetch_run_status_changes(later, MOST_RUNS, ascending=True).records
        ended += records
        now.append(max([last, *(record.storage_id for record in records)]))
    return ended, now


def _latest(instance: dg.DagsterInstance) -> Seen:
    latest = [instance.fetch_run_status_changes(kind, 1).records for kind in ENDS]
    return [records[0].storage_id if records else 0 for records in latest]


def _failed_checks(
    ended: Sequence[dg.EventLogRecord], instance: dg.DagsterInstance, experiment: Experiment
) -> Iterator[Problem]:
    """Yield failed checks of the experiment whose severity is error, not warning."""
    for run_id in dict.fromkeys(record.run_id for record in ended):
        wanted = {dg.DagsterEventType.ASSET_CHECK_EVALUATION}
        for record in instance.get_records_for_run(run_id, of_type=wanted).records:
            event = record.event_log_entry.dagster_event
            check = event.asset_check_evaluation_data if event is not None else None
            if check is None or check.passed or check.severity is not dg.AssetCheckSeverity.ERROR:
                continue
            if check.asset_key.path[0] == experiment.name:
                yield {
                    "check": check.check_name,
                    "asset": check.asset_key.path[-1],
                    "partition": check.partition,
                    "what": check.description,
                    "run": run_id,
                }


def _failed_runs(
    ended: Sequence[dg.EventLogRecord], instance: dg.DagsterInstance, experiment: Experiment
) -> Iterator[Problem]:
    """Yield failed runs of the experiment that Dagster does not start again."""
    for record in ended:
        run = instance.get_run_by_id(record.run_id)
        if run is None or not run.is_failure or run.tags.get(WILL_RETRY_TAG) == "true":
            continue
        assets = {key.path[0] for key in run.asset_selection or ()}
        if run.job_name == job_name(experiment) or experiment.name in assets:
            yield {"job": run.job_name, "what": _reason(record), "run": run.run_id}


def _reason(record: dg.EventLogRecord) -> str:
    event = record.event_log_entry.dagster_event
    return (event.message if event is not None else None) or record.event_log_entry.user_message


def _message(
    experiment: Experiment,
    checks: Sequence[Problem],
    runs: Sequence[Problem],
    drops: Sequence[str],
    pages: Sequence[str],
) -> Mapping[str, object]:
    """Return what is posted; ``text`` is what a chat shows.

    Its last lines are what fell, from which value to which and on which questions, and ``pages``
    that nobody judged: they may be why.
    """
    lines = [f"{experiment.name}: {len(checks)} failed checks, {len(runs)} failed runs"]
    for problem in checks:
        place = problem["asset"] or ""
        place += f"[{problem['partition']}]" if problem["partition"] else ""
        lines.append(f"{problem['check']} of {place}: {problem['what']}")
    lines += [f"run {problem['run']}: {problem['what']}" for problem in runs]
    lines += [*drops, *pages]
    return {
        "text": "\n".join(lines),
        "experiment": experiment.name,
        "failed_checks": list(checks),
        "failed_runs": list(runs),
        "drops": list(drops),
    }


def _read(cursor: str | None) -> Seen | None:
    """Return the cursor; one that this program did not write is none."""
    try:
        successes, failures = json.loads(cursor or "")
        return [int(successes), int(failures)]
    except (ValueError, TypeError):
        return None
