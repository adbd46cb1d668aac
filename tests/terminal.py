"""What a program writes to a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def written_to_terminal(words: Sequence[str], variables: Mapping[str, str | None]) -> str:
    """Return what Python with these arguments writes to a terminal of 80 columns.

    ``variables`` are set, or with None left out, in its environment.
    """
    own = {"COLUMNS": "80", "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[1])}
    wanted = {**os.environ, **own, **variables}
    environment = {name: value for name, value in wanted.items() if value is not None}
    ours, theirs = pty.openpty()
    program = [sys.executable, *words]
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
        process.wait(60)
    os.close(ours)
    return b"".join(parts).decode()
