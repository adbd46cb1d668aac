"""A process that is asked, and answers, in lines of JSON, until it is closed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


class AskedProcess:
    """A process that answers each line of its input by one of its output."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it; ``environment`` is added to that of this process."""
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question: Any) -> Any:  # noqa: ANN401
        """Ask, and wait for the answer.

        Raises:
            SystemExit: the process has ended.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError(self._process.args)
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._process.args!r}: ended with {self._process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        """End it."""
        self._process.communicate()
