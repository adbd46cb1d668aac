"""Sensors that post to a webhook what failed: runs, checks, and the gate behind an evaluation."""
# Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.

import html
import json
from functools import partial
from urllib.parse import urlsplit

import dagster as dg
import httpx2

from rag_assets.analysis.gate import FAIL, Rules, gate
from rag_assets.analysis.result import EvaluationResult
from rag_assets.assets.job import TRIGGER_TAG, job_name
from rag_assets.errors import RagAssetsError
from rag_assets.pipeline.evaluation_names import open_evaluations, registered
from rag_assets.plain_text import markdown
from rag_assets.servers.client import checked_address
from rag_assets.servers.transport import Server, Transport
from rag_assets.store.settings import StoreSettings


def alert_sensors(address: dg.EnvVar, store: str | None = None) -> list[dg.SensorDefinition]:
    """Return sensors on all runs; behind those of jobs of ``store`` the gate is asked too."""

    def tell(context: dg.RunStatusSensorContext) -> None:
        run, kind, failed = context.dagster_run, dg.DagsterEventType.ASSET_CHECK_EVALUATION, []
        for entry in context.instance.all_logs(run.run_id, kind):
            check = entry.asset_check_evaluation
            if check and not check.passed and check.severity is dg.AssetCheckSeverity.ERROR:
                of = " ".join(filter(None, (check.asset_key.to_user_string(), check.partition)))
                text = (check.description or "failed").removeprefix("- ").replace("\n- ", "; ")
                failed.append(f"{check.check_name} of {of}: {text}")
        if run.is_failure and run.tags.get("dagster/will_retry") != "true":
            failed.append(f"{run.job_name}: {context.dagster_event.message}")
        for name, source in registered(StoreSettings.resolve(store)).items():
            if run.is_success and run.job_name == job_name(name) and TRIGGER_TAG not in run.tags:
                failed += _failed_gate(source, store)
        if failed:  # a chat obeys signs of HTML and Markdown, and these may quote documents
            lines = [html.escape(markdown(text), quote=False) for text in failed]
            content = json.dumps({"text": "\n".join(lines), "run": run.run_id, "failed": lines})
            url = checked_address(address.get_value() or "", name=f"{address.env_var_name} ")
            path, headers = urlsplit(url).path, {"content-type": "application/json"}
            with Transport(httpx2, Server(url, timeout=10, hidden=(path,))) as transport:
                transport.send("POST", path, headers, content.encode())

    on, end = dg.DefaultSensorStatus.RUNNING, dg.DagsterRunStatus
    watch = partial(dg.run_status_sensor, monitor_all_code_locations=True, default_status=on)
    return [watch(end.FAILURE, "alerts")(tell), watch(end.SUCCESS, "alerts_of_successes")(tell)]


def _failed_gate(source: str, store: str | None) -> list[str]:
    try:
        _, names = open_evaluations(source, store)
        if names.anchor_id() is None:
            return []
        found = gate(EvaluationResult.current(names.root), names, "anchor", Rules())
    except RagAssetsError as error:
        return [f"gate: {error}"]
    # Floors are told by their checks.
    return ["; ".join([found.sheet().title, *found.sheet().notes])] if found.answer == FAIL else []
