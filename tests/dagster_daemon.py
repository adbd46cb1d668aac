"""A real Dagster daemon beside the tiny experiment, and its code server, as processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from dagster._cli import cli

from rag_assets.assets.instance import open_instance
from tests.background import Process, modules_running, wait_until
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
    """Run a command of Dagster on the code location, in this process; return what it prints.

    The code location is loaded by a process of its own, as always.
    """
    line = [*words, *MODULE, "-d", str(tiny.root)]
    done = CliRunner(env=environment(tiny)).invoke(cli, line)
    if done.exit_code:
        raise ChildProcessError(f"{' '.join(line)}\n{done.output}") from done.exception
    return done.output


@dataclass(frozen=True)
class Daemon:
    """A daemon that runs in ``folder``, where its log lies."""

    processes: Mapping[str, Process]
    folder: Path

    def wait(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until something happened; see :func:`tests.background.wait_until`."""
        wait_until(happened, what, self.processes, self.folder, PATIENCE)


@contextmanager
def daemon(tiny: Tiny) -> Iterator[Daemon]:
    """Run the daemon; it and its code server are stopped at the end.

    The instance is created before: Dagster's processes do not wait for each other to create it.
    """
    with open_instance(tiny.settings):
        pass
    commands = {"daemon": ("tests.quick_daemon", "run", *MODULE)}
    with modules_running(commands, tiny.root, environment(tiny), signal.SIGINT) as running:
        yield Daemon(running, tiny.root)
