"""What fails is posted to a webhook, by the sensors that docs/deployment.md shows."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from rag_assets.assets.instance import open_instance
from rag_assets.assets.job import TRIGGER_TAG
from rag_assets.pipeline.evaluation_names import EvaluationNames, register
from rag_assets.schemas import COMPARISONS
from rag_assets.statistics.stage import COMPARISONS_KEY
from tests.dagster_state import QUIET, run_as_ui
from tests.retrieval.external.loopback import Loopback, Reply, serving
from tests.tiny_experiment import JUDGMENTS, Tiny, damage

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "deployment.md"
VARIABLE = "RAG_ASSETS_ALERT_URL"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with serving(lambda _: Reply("ok")) as running:
        monkeypatch.setenv(VARIABLE, f"{running.root}/hooks/a-secret-of-1234?token=b-secret-5678")
        yield running


def written(tiny: Tiny, page: str, patch: pytest.MonkeyPatch) -> Path:
    """Return a file with the definitions of a page, in a folder whose only experiment is tiny."""
    register(tiny.pipeline().experiment, tiny.settings)
    patch.chdir(tiny.root)
    patch.setenv("RAG_ASSETS_STORE", str(tiny.settings.store))
    text = (DOCS / page).read_text("utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
    file = tiny.root / "location.py"
    file.write_text(snippet, encoding="utf-8")
    return file


class Location:
    """The definitions of the page, and its sensors."""

    def __init__(self, tiny: Tiny, patch: pytest.MonkeyPatch) -> None:
        self.tiny = tiny
        self.defs: dg.Definitions = runpy.run_path(str(written(tiny, PAGE.name, patch)))["defs"]
        self.sensors = [self.defs.get_sensor_def(n) for n in ("alerts", "alerts_of_successes")]
        self.cursors: list[str | None] = [None, None]
        self.tick()

    def job(self, **tags: str) -> None:
        with open_instance(self.tiny.settings) as instance:
            self.defs.get_job_def("tiny_evaluate").execute_in_process(
                instance=instance, tags=tags, run_config=QUIET, raise_on_error=False
            )

    def tick(self) -> list[str]:
        """Let the sensors look until they have seen all; return the errors of ticks."""
        errors = []
        with open_instance(self.tiny.settings) as instance:
            for number, sensor in enumerate(self.sensors):
                assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
                last: str | None = ""
                while self.cursors[number] != last:
                    last = self.cursors[number]
                    result = sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=last))
                    reactions = result.dagster_run_reactions or ()
                    errors += [one.error.to_string() for one in reactions if one.error is not None]
                    self.cursors[number] = result.cursor
        return errors


@pytest.fixture
def location(few: Tiny, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> Location:
    made = Location(few, monkeypatch)
    assert server.received == []
    return made


def posted(server: Loopback) -> dict[str, Any]:
    (request,) = server.received
    assert (request.method, request.path) == ("POST", "/hooks/a-secret-of-1234")
    assert request.parameters == {"token": "b-secret-5678"}
    assert request.headers["content-type"] == "application/json"
    server.received.clear()
    assert request.body["text"].splitlines() == request.body["failed"]
    (shown,) = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text("utf-8"), re.S | re.M)
    assert request.body.keys() == json.loads(shown).keys()
    content: dict[str, Any] = request.body
    return content


def made_worse(table: pa.Table) -> pa.Table:
    worse = {"p_randomisation": 0.001, "p_adjusted": 0.01, "difference": -0.3}
    rows = table.to_pylist()
    for row in rows:
        if (row["retriever_a"], row["retriever_b"]) == ("bm25", "bm25-whole"):
            row.update(worse)
    return COMPARISONS.from_rows(rows)


def test_a_check_that_fails_as_an_error_is_told_once(location: Location, server: Loopback) -> None:
    tiny = location.tiny
    damage(tiny, COMPARISONS_KEY, made_worse)
    assert run_as_ui(tiny, ["comparisons"]).success
    assert location.tick() == []
    assert server.received == []  # it is a warning
    tiny.config["checks"] = {"regression": "error"}
    tiny.write_config()
    told = run_as_ui(tiny, ["comparisons"])
    assert location.tick() == []
    message = posted(server)
    assert message["run"] == told.run_id
    assert message["text"] == (
        "no_regression of tiny/comparisons: bm25-whole is worse than bm25 on ndcg@3 (all) by "
        "0.3000, p = 0.0100"
    )
    assert location.tick() == []
    assert server.received == []


def test_a_check_is_told_on_one_line_and_escaped(location: Location, server: Loopback) -> None:
    @dg.asset
    def pages() -> None: ...
    @dg.asset_check(asset=pages)
    def are_there() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False, description=problem)

    for problem, told in (  # noqa: B007
        ("<!channel> *now* [a](http://b)\n# c", r"\&lt;!channel&gt; \*now\* [a\](http://b) # c"),
        ("- a is low\n- b is low", "a is low; b is low"),
    ):
        with open_instance(location.tiny.settings) as instance:
            dg.materialize([pages, are_there], instance=instance, run_config=QUIET)
        location.tick()
        assert posted(server)["failed"] == [f"are_there of pages: {told}"]


def test_a_run_that_is_started_again_is_no_news(location: Location, server: Loopback) -> None:
    (location.tiny.folder / "queries.jsonl").write_text("{", encoding="utf-8")
    location.job(**{"dagster/will_retry": "true"})
    location.tick()
    assert server.received == []
    location.job()
    location.tick()
    assert posted(server)["text"].startswith("tiny_evaluate: ")


def test_the_gate_is_asked_behind_the_job(location: Location, server: Loopback) -> None:
    tiny = location.tiny
    location.job()
    location.tick()
    assert server.received == []  # there is no anchor
    EvaluationNames(tiny.settings, "tiny").pin("latest")
    location.job()
    location.tick()
    assert server.received == []  # it passes
    tiny.write_rows("judgments.jsonl", JUDGMENTS[1:])
    location.job(**{TRIGGER_TAG: "cli"})
    location.tick()
    assert server.received == []
    location.job()
    assert location.tick() == []
    assert "gate: their means are not comparable" in posted(server)["text"]


def test_a_gate_that_fails_says_what_fell(location: Location, server: Loopback) -> None:
    tiny = location.tiny
    EvaluationNames(tiny.settings, "tiny").pin("latest")
    (tiny.folder / "search.py").write_text("def retrieve(query, k):\n    return []\n")
    tiny.config["retrievers"] = {"bm25": {"type": "python", "call": "search.py:retrieve"}}
    tiny.write_config()
    location.job()
    assert location.tick() == []
    message = posted(server)
    assert message["failed"][0].startswith("gate FAILED: tiny, ndcg@3 against ")
    assert "failed: bm25: broken: it returns nothing" in message["text"]


def test_what_is_not_taken_fails_the_tick_without_the_secret(
    location: Location, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda request: Reply(f"no {request.path}", 503)
    (location.tiny.folder / "queries.jsonl").write_text("{", encoding="utf-8")
    location.job()
    (error,) = location.tick()
    assert "503" in error
    for address in ("", "not-an-address", "ftp://host/a-secret-of-1234", "https://secret:secret"):
        monkeypatch.setenv(VARIABLE, address)
        location.job()
        (other,) = location.tick()
        assert f"{VARIABLE} must " in other
        error += other
    assert "secret" not in error


PAGES = {
    "deployment.md": ("sensor list", r"Sensor: alerts \[R.*Sensor: alerts_of_successes \[R"),
    "automation.md": ("asset materialize --select tiny/queries", "Executing steps in process"),
}


@pytest.mark.parametrize("page", PAGES)
def test_dagster_takes_the_definitions_of_a_page(
    few: Tiny, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    command, told = PAGES[page]
    monkeypatch.setenv("DAGSTER_HOME", str(few.root))
    line = f"{sys.executable} -m dagster {command} -f {written(few, page, monkeypatch)}"
    result = subprocess.run(line.split(), capture_output=True, text=True, check=False)
    assert re.search(told, result.stdout + result.stderr, re.S)
