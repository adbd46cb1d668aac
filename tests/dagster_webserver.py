"""The real web server of Dagster over an evaluated experiment, on loopback, as processes."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.background import HOST, free_port, modules_running, wait_until
from tests.dagster_daemon import MODULE, ROOT, environment
from tests.tiny_experiment import Tiny

__all__ = ["ROOT", "answers", "webserver"]

PATIENCE = 120.0
"""Seconds after which a server that does not answer will not."""


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
    with modules_running(commands, tiny.root, environment(tiny), signal.SIGINT) as started:
        wait_until(lambda: answers(address), "an answer", started, tiny.root, PATIENCE)
        yield address


def answers(address: str) -> bool:
    """Return whether a server is up."""
    try:
        with urllib.request.urlopen(f"{address}/server_info", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False
