"""The servers that journeys need, and a line on what was advised."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journeys.folder import LAB, Folder, Row, best_passages
from tests.journeys.travel import Journey
from tests.llm.server import Server, says
from tests.llm.server import serving as serving_model
from tests.retrieval.external.loopback import Loopback, Reply, Request
from tests.retrieval.external.loopback import serving as serving_search


def hits(request: Request) -> Reply:
    """Answer a query by the passages that share most words with it."""
    n = int(request.parameters["n"])
    best = best_passages(request.parameters["q"])[:n]
    return Reply({"hits": [{"source": name, "text": text} for name, text in best]})


@pytest.fixture(scope="session")
def search_server() -> Iterator[Loopback]:
    with serving_search(hits) as running:
        yield running


@pytest.fixture(scope="session")
def model_server() -> Iterator[Server]:
    with serving_model() as running:
        running.on("", says("Nobody knows [1]."))
        yield running


@pytest.fixture(scope="session")
def travel_in(search_server: Loopback, model_server: Server) -> Callable[[Path, Row], Journey]:
    """Return a function that writes the folder of a row below another one."""

    def start(root: Path, row: Row) -> Journey:
        folder = Folder(root, row, model_server.base_url, f"{search_server.root}/search")
        folder.write()
        return Journey(folder)

    return start


@pytest.fixture(scope="session")
def other_store(
    tmp_path_factory: pytest.TempPathFactory, travel_in: Callable[[Path, Row], Journey]
) -> Path:
    """A store in which another experiment, of the same documents, was evaluated."""
    root = tmp_path_factory.mktemp("other")
    row = Row("complete", "embedding", "none", "more", "10", "empty", "nothing", "ask")
    journey = travel_in(root, row)
    journey.folder.config["name"] = "harbour"
    journey.folder.write_config()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        journey.run("evaluate", LAB)
    return root / "data" / "store"


@pytest.fixture
def travel(
    tmp_path: Path,
    travel_in: Callable[[Path, Row], Journey],
    other_store: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> Iterator[Callable[[Row], Journey]]:
    """Return a function that makes the folder of a row, above which commands then run.

    Each row has a working directory of its own.
    """
    for name in ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    started: list[Journey] = []

    def start(row: Row) -> Journey:
        root = tmp_path / str(len(started))
        root.mkdir()
        monkeypatch.chdir(root)
        if row.store == "other":
            shutil.copytree(other_store, root / "data" / "store")
        started.append(travel_in(root, row))
        return started[-1]

    yield start
    for journey in started:
        record_property("advised", len(journey.advised))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many advices were run."""
    reports = [
        one
        for kind in ("passed", "failed", "xfailed")
        for one in terminalreporter.stats.get(kind, [])
    ]
    counts = [n for one in reports for name, n in one.user_properties if name == "advised"]
    if counts:
        line = f"{len(counts)} journeys; {sum(map(int, counts))} advised commands were run"
        terminalreporter.write_line(line)
