"""What fails is posted once, to a real server, and again where it was not taken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from rag_assets.assets.alerts import VARIABLE, alert_sensors, post
from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.instance import open_instance
from rag_assets.errors import UsageError
from rag_assets.schemas import COMPARISONS
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.artifacts import ArtifactKey
from tests.background import free_port
from tests.dagster_state import QUIET, run_as_ui
from tests.loopback_webhook import Webhook, webhook
from tests.tiny_experiment import Tiny, damage, set_cell

BAD = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook() as running:
        monkeypatch.setenv(VARIABLE, running.address)
        yield running


Cursors = list[str | None]


def tick(tiny: Tiny, cursors: Sequence[str | None] = (None, None)) -> Cursors:
    """Let the sensors look until they have seen all; return their new cursors."""
    after: Cursors = []
    sensors = alert_sensors(tiny.pipeline().experiment)
    with open_instance(tiny.settings) as instance:
        for sensor, cursor in zip(sensors, cursors, strict=True):
            last = ""
            while cursor != last:
                last = str(cursor)
                context = dg.build_sensor_context(instance, cursor=cursor)
                result = sensor.evaluate_tick(context)
                for reaction in result.dagster_run_reactions or ():
                    if reaction.error is not None:
                        raise UsageError(reaction.error.message)
                cursor = result.cursor
            after.append(cursor)
    return after


def fail(tiny: Tiny) -> None:
    """Let a check of one partition fail, and with it a run."""
    damage(tiny, BAD, set_cell("chunk_id", 0, "gone.md"))
    assert not run_as_ui(tiny, ["lexical_runs"], partition="bm25|3").success


def test_what_fails_is_told_once(tiny: Tiny, server: Webhook) -> None:
    start = tick(tiny)
    fail(tiny)
    after = tick(tiny, start)
    (message,) = server.messages
    assert message["experiment"] == "tiny"
    check, run = message["failures"]
    assert (check["check"], check["asset"], check["partition"]) == (
        "ids_exist",
        "lexical_runs",
        "bm25|3",
    )
    assert check["run"] == run["run"]
    first, second, third, hint = message["text"].splitlines()
    assert first == "tiny: 2 failures"
    assert second == f"ids_exist of lexical_runs[bm25|3]: {check['what']}"
    assert third == f"run {run['run']}: {run['what']}"
    assert hint.startswith("what changed: rag-assets diff ")
    tick(tiny, after)
    assert len(server.messages) == 1


def test_a_tick_says_that_a_message_was_not_taken(tiny: Tiny, server: Webhook) -> None:
    start = tick(tiny)
    fail(tiny)
    server.status = 503
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:\d+: HTTP 503") as error:
        tick(tiny, start)
    assert "secret" not in str(error.value)


def made_worse(table: pa.Table) -> pa.Table:
    worse = {"p_randomisation": 0.001, "p_adjusted": 0.01, "difference": -0.3}
    rows = table.to_pylist()
    for row in rows:
        if (row["retriever_a"], row["retriever_b"]) == ("bm25", "okapi"):
            row.update(worse)
    return COMPARISONS.from_rows(rows)


def test_a_regression_is_told_where_it_is_an_error(tiny: Tiny, server: Webhook) -> None:
    """The table of comparisons is made to say that one retriever is worse."""
    damage(tiny, COMPARISONS_KEY, made_worse)
    assert run_as_ui(tiny, ["comparisons"]).success
    start = tick(tiny)
    assert server.messages == []
    tiny.config["checks"] = {"regression": "error"}
    tiny.write_config()
    assert run_as_ui(tiny, ["comparisons"]).success
    tick(tiny, start)
    (message,) = server.messages
    (check,) = message["failures"]
    assert (check["check"], check["partition"]) == ("no_regression", None)
    assert message["text"].splitlines()[1] == (
        "no_regression of comparisons: okapi is worse than bm25 on ndcg@5 (all) by 0.3000, "
        "p = 0.0100"
    )


def test_other_experiments_and_runs_that_are_started_again_are_no_news(
    tiny: Tiny, server: Webhook
) -> None:
    @dg.op
    def breaks() -> None:
        raise dg.Failure("as it should")

    @dg.job
    def other_job() -> None:
        breaks()

    @dg.job(name="tiny_evaluate", tags={"dagster/will_retry": "true"})
    def again() -> None:
        breaks()

    start = tick(tiny)
    with open_instance(tiny.settings) as instance:
        for job in (other_job, again):
            job.execute_in_process(instance=instance, run_config=QUIET, raise_on_error=False)
    tick(tiny, start)
    assert server.messages == []


def test_there_is_none_without_an_address(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = tiny.pipeline().experiment
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:1/x")
    sensors = list(definitions_of(experiment, tiny.settings).sensors or [])
    assert {"tiny_alerts", "tiny_alerts_checks"} <= {sensor.name for sensor in sensors}
    for sensor in alert_sensors(experiment):
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    monkeypatch.setenv(VARIABLE, "")
    assert alert_sensors(experiment) == []
    assert len(list(definitions_of(experiment, tiny.settings).sensors or [])) == len(sensors) - 2


def test_the_page_shows_a_message(tiny: Tiny, server: Webhook) -> None:
    page = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    start = tick(tiny)
    fail(tiny)
    tick(tiny, start)
    (message,) = server.messages
    assert shown.keys() == message.keys()
    assert shown["failures"][0].keys() == message["failures"][0].keys()


def test_a_message_arrives(server: Webhook) -> None:
    message = {"text": "zwölf \N{SNOWMAN}\nlines", "n": [1, None]}
    post(server.address, message)
    assert server.messages == [message]
    assert server.paths == ["/hooks/a-secret?token=b-secret"]


@pytest.mark.parametrize("status", [301, 307, 400, 404, 500, 503])
def test_what_is_refused_is_one_line_without_the_secret(server: Webhook, status: int) -> None:
    server.status = status
    server.headers = {"Location": server.address.replace("hooks", "elsewhere")}
    with pytest.raises(UsageError) as error:
        post(server.address, {"text": "x"})
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+: HTTP {status}: .+", str(error.value))
    assert len(server.messages) == 1


def test_nobody_there() -> None:
    address = f"http://me:password@127.0.0.1:{free_port()}/a-secret"
    with pytest.raises(UsageError, match=r"^http://127\.0\.0\.1:\d+: ") as error:
        post(address, {})
    assert "secret" not in str(error.value)
    assert "password" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://host/x", "https://", "word", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="must begin with http:// or https://"):
        post(address, {})
