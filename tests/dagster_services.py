"""Code server, daemon and webserver as processes of their own, as docs/deployment.md says."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.background import HOST, Process, free_port, modules_running, wait_until

PAGE = Path(__file__).resolve().parents[1] / "docs" / "deployment.md"
PATIENCE = 240.0
"""Seconds after which what did not happen will not happen."""


def page_file(name: str) -> str:
    """Return a file that the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^`{re.escape(name)}`[^\n]*:\n\n```yaml\n(.*?)^```$", text, re.M | re.S)
    if found is None:
        raise LookupError(f"no {name} in {PAGE}")
    return found[1]


@dataclass
class Services:
    """The three processes; logs lie in ``folder``."""

    folder: Path
    port: int
    processes: Mapping[str, Process]

    def ask(self, query: str, **variables: object) -> Any:
        """Ask the webserver; return ``data``."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"http://{HOST}:{self.port}/graphql", body, headers)
        with urlopen(request, timeout=60) as response:
            answer = json.load(response)
        if "errors" in answer:
            raise LookupError(answer["errors"])
        return answer["data"]

    def answers(self) -> bool:
        """Return whether the webserver has loaded the code location."""
        query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"
        try:
            return bool(self.ask(query)["repositoriesOrError"].get("nodes"))
        except (URLError, OSError):
            return False

    def wait(self, what: str, happened: Callable[[], object]) -> None:
        """Wait until something happened; see :func:`tests.background.wait_until`."""
        wait_until(happened, what, self.processes, self.folder, PATIENCE)


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
        running = Services(folder, web, processes)
        running.wait("an answer of the webserver", running.answers)
        yield running
