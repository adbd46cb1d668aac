"""The real web server of Dagster over an evaluated experiment, on loopback, as processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.dagster_daemon import MODULE, ROOT, environment
from tests.tiny_experiment import Tiny

__all__ = ["ROOT", "webserver"]

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds after which a server that does not answer will not."""


@contextmanager
def webserver(tiny: Tiny) -> Iterator[str]:
    """Run the server; yield its address. It and its code server are stopped at the end.

    Raises:
        TimeoutError: it did not answer, or died; with the end of what it printed.
    """
    tiny.settings.dagster_home.mkdir(parents=True, exist_ok=True)
    log = tiny.root / "webserver.log"
    port = _free_port()
    command = [sys.executable, "-m", "dagster_webserver", "-h", HOST, "-p", str(port), *MODULE]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=tiny.root,
            env=environment(tiny),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://{HOST}:{port}"
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(log.read_text(encoding="utf-8")[-6000:])
            time.sleep(0.2)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/server_info", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False
