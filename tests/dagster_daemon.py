"""A real Dagster daemon beside the tiny experiment, and its code server, as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rag_assets.assets.instance import open_instance
from tests.background import Process, module_running, wait_until
from tests.tiny_experiment import Tiny

ROOT = Path(__file__).parents[1]
MODULE = ("-m", "rag_assets.definitions")
PATIENCE = 180.0
"""Seconds after which what did not happen will not happen."""


def environment(tiny: Tiny) -> dict[str, str]:
    """Return the variables that a person would set."""
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
    """Run a command of Dagster on the code location; return what it prints."""
    command = [sys.executable, "-m", "dagster", *words, *MODULE]
    done = subprocess.run(
        command, cwd=tiny.root, env=environment(tiny), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ChildProcessError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Daemon:
    """A daemon that runs in ``folder``, where its log lies."""

    process: Process
    folder: Path

    def wait(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until something happened; see :func:`tests.background.wait_until`."""
        wait_until(happened, what, {"daemon": self.process}, self.folder, PATIENCE)


@contextmanager
def daemon(tiny: Tiny) -> Iterator[Daemon]:
    """Run the daemon; it and its code server are stopped at the end.

    The instance is created before: Dagster's processes do not wait for each other to create it.
    """
    with open_instance(tiny.settings):
        pass
    log = tiny.root / "daemon.log"
    words = ("dagster._daemon", "run", *MODULE)
    with module_running(words, log, environment(tiny), signal.SIGINT) as process:
        yield Daemon(process, tiny.root)
