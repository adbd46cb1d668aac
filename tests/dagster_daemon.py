"""A real Dagster daemon beside the tiny experiment, and its code server, as processes."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from click.testing import CliRunner
from dagster._cli import cli

from rag_assets.assets.instance import open_instance
from tests.background import HOST, Process, free_port, modules_running, wait_until
from tests.tiny_experiment import Tiny

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "deployment.md"
MODULE = ("-m", "rag_assets.definitions")
PATIENCE = 240.0
"""Seconds after which what did not happen will not happen."""


def daemon_environment(tiny: Tiny) -> dict[str, str]:
    own = {
        "PYTHONPATH": str(ROOT),
        "RAG_ASSETS_STORE": str(tiny.settings.store),
        "RAG_ASSETS_SENSOR_SECONDS": "1",
        "DAGSTER_HOME": str(tiny.settings.dagster_home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "OMP_NUM_THREADS": "1",
    }
    return {**os.environ, **own}


def dagster(tiny: Tiny, *words: str) -> str:
    """Run a command of Dagster on the code location, in this process; return what it prints.

    The code location is loaded by a process of its own, as always.
    """
    line = [*words, *MODULE, "-d", str(tiny.root)]
    done = CliRunner(env=daemon_environment(tiny)).invoke(cli, line)
    if done.exit_code:
        raise ChildProcessError(f"{' '.join(line)}\n{done.output}") from done.exception
    return done.output


@dataclass(frozen=True)
class Services:
    """Processes that run in ``folder``, where their logs lie; a webserver listens at ``port``."""

    processes: Mapping[str, Process]
    folder: Path
    port: int = 0

    def wait(self, what: str, happened: Callable[[], object]) -> None:
        wait_until(happened, what, self.processes, self.folder, PATIENCE)

    def ask(self, query: str, **variables: object) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"http://{HOST}:{self.port}/graphql", body, headers)
        with urlopen(request, timeout=60) as response:
            answer = json.load(response)
        if "errors" in answer:
            raise LookupError(answer["errors"])
        return answer["data"]

    def answers(self) -> bool:
        query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"
        try:
            return bool(self.ask(query)["repositoriesOrError"].get("nodes"))
        except OSError:
            return False


@contextmanager
def daemon(tiny: Tiny) -> Iterator[Services]:
    """Run the daemon; it and its code server are stopped at the end.

    The instance is created before: Dagster's processes do not wait for each other to create it.
    """
    with open_instance(tiny.settings):
        pass
    commands = {"daemon": ("tests.quick_daemon", "run", *MODULE)}
    with modules_running(commands, tiny.root, daemon_environment(tiny), signal.SIGINT) as running:
        yield Services(running, tiny.root)


def page_file(name: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^`{re.escape(name)}`[^\n]*:\n\n```yaml\n(.*?)^```$", text, re.M | re.S)
    if found is None:
        raise LookupError(f"no {name} in {PAGE}")
    return found[1]


@contextmanager
def services(folder: Path, workspace: str, environment: Mapping[str, str]) -> Iterator[Services]:
    """Run the three processes in ``folder``; all are stopped at the end."""
    code, web = free_port(), free_port()
    (folder / "workspace.yaml").write_text(workspace.replace("4000", str(code)), encoding="utf-8")
    loopback = ("--host", HOST, "--port")
    target = ("-w", "workspace.yaml")
    commands = {
        "code": (
            *("dagster", "code-server", "start", "-m", "rag_assets.definitions"),
            *(*loopback, str(code)),
        ),
        "daemon": ("tests.quick_daemon", "run", *target),
        "web": ("dagster_webserver", *target, *loopback, str(web)),
    }
    with modules_running(commands, folder, environment, signal.SIGTERM) as processes:
        running = Services(processes, folder, web)
        running.wait("an answer of the webserver", running.answers)
        yield running


@contextmanager
def webserver(tiny: Tiny) -> Iterator[str]:
    """Run the server; yield its address. It and its code server are stopped at the end.

    Raises:
        TimeoutError: it did not answer, or died; with the end of what it printed.
    """
    tiny.settings.dagster_home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    words = ("dagster_webserver", "-h", HOST, "-p", str(port), *MODULE)
    address = f"http://{HOST}:{port}"
    commands = {"webserver": words}
    with modules_running(commands, tiny.root, daemon_environment(tiny), signal.SIGINT) as started:
        wait_until(lambda: answers(address), "an answer", started, tiny.root, PATIENCE)
        yield address


def answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/server_info", timeout=2):
            return True
    except OSError:
        return False
