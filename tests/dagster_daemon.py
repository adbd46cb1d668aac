"""A real Dagster daemon beside the tiny experiment, and its code server, as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_assets.assets.instance import open_instance
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


class Daemon:
    """A daemon that runs; ``log`` is what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def wait(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until something happened.

        Raises:
            TimeoutError: it did not, or the daemon died; with the end of the log.
        """
        deadline = time.monotonic() + PATIENCE
        while not happened():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"{what}\n{self.log.read_text()[-6000:]}")
            time.sleep(0.3)


@contextmanager
def daemon(tiny: Tiny) -> Iterator[Daemon]:
    """Run the daemon; it and its code server are stopped at the end.

    The instance is created before: Dagster's processes do not wait for each other to create it.
    """
    with open_instance(tiny.settings):
        pass
    log = tiny.root / "daemon.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster._daemon", "run", *MODULE],
            cwd=tiny.root,
            env=environment(tiny),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Daemon(process, log)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
