"""Processes that run beside a test, and ports for them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Process = subprocess.Popen[bytes]
HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def modules_running(
    commands: Mapping[str, tuple[str, ...]],
    folder: Path,
    environment: Mapping[str, str],
    stop: signal.Signals,
) -> Iterator[dict[str, Process]]:
    """Run modules with their arguments in ``folder``, where their logs lie: ``NAME.log``.

    They are all sent ``stop`` at the end; what does not end is killed with what it started.
    """
    running: dict[str, Process] = {}
    try:
        for name, words in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                running[name] = subprocess.Popen(
                    [sys.executable, "-m", *words],
                    cwd=folder,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        yield running
    finally:
        for process in running.values():
            process.send_signal(stop)
        for process in running.values():
            _wait_or_kill(process)


def _wait_or_kill(process: Process) -> None:
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(
    happened: Callable[[], object],
    what: str,
    processes: Mapping[str, Process],
    folder: Path,
    patience: float,
) -> None:
    """Wait until something happened.

    Raises:
        TimeoutError: it did not in ``patience`` seconds, or a process died; with the ends of the
            logs in ``folder``.
    """
    deadline = time.monotonic() + patience
    while not happened():
        dead = [name for name, process in processes.items() if process.poll() is not None]
        if dead or time.monotonic() > deadline:
            logs = [file.read_text()[-6000:] for file in sorted(folder.glob("*.log"))]
            raise TimeoutError("\n".join([what, *dead, *logs]))
        time.sleep(0.2)
