"""Sensors that post what failed in an experiment to an address: of a chat, a pager, a service.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import os
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import dagster as dg

from rag_assets.assets.execution import sensor_seconds
from rag_assets.assets.job import job_name
from rag_assets.assets.names import plain_name
from rag_assets.errors import UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.servers.failures import ServerFailure
from rag_assets.servers.transport import Server, Transport

TIMEOUT = 10.0
"""Seconds until the whole answer is there."""


def post(address: str, message: Mapping[str, object], timeout: float = TIMEOUT) -> None:
    """Post a message as JSON; of the answer only the status counts.

    Raises:
        UsageError: the address is none, or nobody answered there with a status of 2xx; names no
            more of the address than its host: the rest of a webhook's is its key.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the address of a webhook must begin with http:// or https://")
    import httpx2

    server = Server(address, timeout=timeout, most_bytes=0, hidden_path=True)
    with Transport(httpx2, server) as transport:
        try:
            transport.post("", message)
        except ServerFailure as error:
            failure = error
        else:
            return
    raise UsageError(f"{server.place}: {failure}")


VARIABLE = "RAG_ASSETS_ALERT_URL"

WILL_RETRY_TAG = "dagster/will_retry"
"""Run tag: Dagster starts the run again, so that it failed is no news."""

Problem = Mapping[str, str | None]


def alert_sensors(experiment: Experiment) -> list[dg.SensorDefinition]:
    """Return the sensors on failed checks and runs, where ``RAG_ASSETS_ALERT_URL`` is set.

    Dagster has a sensor for each way in which a run can end: a check may fail in a run that
    succeeds. They are on as soon as they are loaded, and see runs of the command line too.
    """
    if not os.environ.get(VARIABLE):
        return []

    def tell(context: dg.RunStatusSensorContext) -> None:
        failures = [*_failed_checks(context, experiment), *_failed_run(context, experiment)]
        address = os.environ.get(VARIABLE)
        if not address or not failures:
            return
        heading = f"{experiment.name}: {len(failures)} failures"
        hint = f"what changed: rag-assets diff {experiment.source} previous latest"
        text = "\n".join([heading, *map(_line, failures), hint])  # what a chat shows
        try:
            post(address, {"text": text, "experiment": experiment.name, "failures": failures})
        except UsageError as error:
            raise dg.Failure(str(error)) from None

    name = f"{plain_name(experiment)}_alerts"
    ends = {name: dg.DagsterRunStatus.FAILURE, f"{name}_checks": dg.DagsterRunStatus.SUCCESS}
    return [
        dg.run_status_sensor(
            run_status=status,
            name=sensor,
            minimum_interval_seconds=sensor_seconds(),
            description=f"Posts failed checks and runs to {VARIABLE}.",
            default_status=dg.DefaultSensorStatus.RUNNING,
            monitor_all_code_locations=True,
        )(tell)
        for sensor, status in ends.items()
    ]


def _failed_checks(context: dg.RunStatusSensorContext, experiment: Experiment) -> Iterator[Problem]:
    """Yield failed checks of the experiment whose severity is error, not warning."""
    run_id, wanted = context.dagster_run.run_id, {dg.DagsterEventType.ASSET_CHECK_EVALUATION}
    for record in context.instance.get_records_for_run(run_id, of_type=wanted).records:
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


def _failed_run(context: dg.RunStatusSensorContext, experiment: Experiment) -> list[Problem]:
    """Return a failed run of the experiment that Dagster does not start again; else nothing."""
    run = context.dagster_run
    if not run.is_failure or run.tags.get(WILL_RETRY_TAG) == "true":
        return []
    assets = {key.path[0] for key in run.asset_selection or ()}
    if run.job_name != job_name(experiment) and experiment.name not in assets:
        return []
    return [{"job": run.job_name, "what": context.dagster_event.message, "run": run.run_id}]


def _line(problem: Problem) -> str:
    if "check" not in problem:
        return f"run {problem['run']}: {problem['what']}"
    partition = f"[{problem['partition']}]" if problem["partition"] else ""
    return f"{problem['check']} of {problem['asset']}{partition}: {problem['what']}"
