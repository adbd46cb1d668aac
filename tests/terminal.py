"""What a program writes to a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.forked import Forks, Place

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SIZE = {"COLUMNS": "80", "TERM": "xterm"}


def written_to_terminal(words: Sequence[str], variables: Mapping[str, str | None]) -> str:
    """Return what Python with these arguments writes to a terminal of 80 columns.

    ``variables`` are set, or with None left out, in its environment.
    """
    own = {**SIZE, "PYTHONPATH": str(Path(__file__).parents[1])}
    wanted = {**os.environ, **own, **variables}
    environment = {name: value for name, value in wanted.items() if value is not None}
    ours, theirs = pty.openpty()
    program = [sys.executable, *words]
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        written = _all_of(ours)
        process.wait(60)
    return written


def forked_to_terminal(
    forks: Forks, words: Sequence[str], variables: Mapping[str, str] | None = None
) -> str:
    """Return what ``rag-assets`` with these arguments writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**SIZE, **(variables or {})}
    process = forks.start(Place(os.ttyname(theirs), environment=environment), *words)

    def wait() -> None:
        forks.wait(process)
        os.close(theirs)

    waiting = threading.Thread(target=wait)
    waiting.start()
    written = _all_of(ours)
    waiting.join()
    return written


def _all_of(terminal: int) -> str:
    """Return what comes until the other end is closed."""
    parts = []
    with suppress(OSError):  # it is closed
        while part := os.read(terminal, 65536):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()
