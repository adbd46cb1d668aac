"""What people do on the page of labels, in every order: nothing is lost, and all numbers are."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rag_assets.experiment import load_experiment
from rag_assets.labels.experiment_pool import sampled_pool
from rag_assets.labels.page.session import LabelSession, Passages
from rag_assets.labels.pool import sampled_metrics
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.settings import StoreSettings
from tests.forked import Forks
from tests.journeys.folder import LAB, Row
from tests.journeys.travel import Journey, Processes
from tests.labels.page.served import Client, moment

Travel = Callable[[Row], Journey]

UNLABELLED = Row("none", "python", "none", "more", "10", "empty", "nothing", "label")
DEPTH = 3
EVENTS = ("mark", "answer", "undo", "later", "restart")
PLACE = ("query_id", "document_id", "start", "end")


def place(task: Any) -> tuple[Any, ...]:
    """Return which passage is asked about."""
    return tuple(task[name] for name in PLACE)


class Page:
    """The page of an evaluated experiment, as its server makes it; bodies are those of requests."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, self._n = pipeline, 0
        self.answered: dict[tuple[Any, ...], int] = {}
        self._order: list[tuple[Any, ...]] = []
        self.restart()

    def restart(self) -> None:
        sampled = sampled_pool(self._pipeline, DEPTH)
        keys = (DOCUMENTS_KEY, QUERIES_KEY)
        texts = Passages(*(self._pipeline.artifact(key).table() for key in keys))
        metric, *_ = sampled_metrics(self._pipeline.experiment.primary, DEPTH)
        self._actions = LabelSession(sampled, texts, metric).actions("ada")

    def ask(self, path: str, **body: Any) -> Any:
        """Send a request, and return the answer as JSON."""
        body_type, action = self._actions[path]
        given = msgspec.json.decode(json.dumps(body), type=body_type)
        return json.loads(json.dumps(action(given), allow_nan=False, default=str))

    def do(self, event: str) -> None:
        """Let something happen, where it can."""
        task = self.ask("next")["task"]
        self._n += 1
        at = {"by": "ada", "at": moment(self._n)}
        if event == "restart":
            self.restart()
        elif event == "undo":
            if self._order:
                back = self.ask("undo", **at)["undone"]
                assert self.answered.pop(self._order.pop()) is not None
                assert back["status"] in ("judged", "skipped")
        elif event == "mark" and task is not None:
            self.ask("mark", **at, query_id=task["query_id"], mark="unclear")
        elif task is not None:
            status, grade = ("judged", self._n % 4) if event == "answer" else ("skipped", None)
            said: dict[str, Any] = {
                "status": status,
                "grade": grade,
                "evidence": [],
                "seconds": 1.0,
            }
            self.ask("answer", **at, **{name: task[name] for name in PLACE}, **said)
            self._order.append(place(task))
            self.answered[place(task)] = self._n if event == "answer" else -1

    def check(self) -> None:
        """Nothing is asked twice, and what the page tells is a number inside its interval."""
        task = self.ask("next")["task"]
        if task is not None:
            assert self.answered.get(place(task), -1) == -1, "an answered passage is asked again"
        for value in _numbers(self.ask("standing")):
            assert math.isfinite(value)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _numbers(one)


@pytest.fixture(scope="module")
def evaluated(
    tmp_path_factory: pytest.TempPathFactory, travel_in: Callable[[Path, Row], Journey]
) -> Iterator[Pipeline]:
    root = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        travel_in(root, UNLABELLED).run("evaluate", LAB)
        yield Pipeline(load_experiment(root / LAB), StoreSettings.resolve())


@pytest.mark.parametrize("first", EVENTS)
@pytest.mark.parametrize(
    "n", [pytest.param(3, id="four"), pytest.param(5, id="six", marks=pytest.mark.slow)]
)
def test_in_every_order(evaluated: Pipeline, first: str, n: int) -> None:
    folder = evaluated.experiment.judgments_log.parent
    for events in product(EVENTS, repeat=n):
        for file in folder.glob("labelling*"):
            file.unlink()
        page = Page(evaluated)
        try:
            for event in (first, *events):
                page.do(event)
            page.check()
        except Exception as error:
            pytest.fail(f"after {first}, {', '.join(events)}: {error!r}")


def test_what_was_skipped_twice_can_be_taken_back_after_a_restart(evaluated: Pipeline) -> None:
    for file in evaluated.experiment.judgments_log.parent.glob("labelling*"):
        file.unlink()
    page = Page(evaluated)
    for event in ("later", "undo", "later", "restart", "undo"):
        page.do(event)
    page.check()


def test_a_killed_page_has_lost_nothing(travel: Travel, forks: Forks) -> None:
    journey = travel(UNLABELLED)
    folder = journey.folder
    journey.run("evaluate", LAB)
    pages = Processes(forks, folder.root)
    asked = []

    def answers_and_kills(client: Client) -> None:
        for _ in range(2):
            task = client.ask("next")["task"]
            asked.append(place(task))
            folder.answers(client, task)
        client.ask("next")
        os.kill(pages.process, signal.SIGKILL)

    def goes_on(client: Client) -> None:
        task = client.ask("next")
        assert task["progress"]["answered"] == 2
        asked.append(place(task["task"]))

    assert pages(["label", LAB, "--no-browser"], answers_and_kills)[0] == -signal.SIGKILL
    journey.command = pages
    journey.run("label", LAB, "--no-browser", person=goes_on)
    assert len(set(asked)) == 3
