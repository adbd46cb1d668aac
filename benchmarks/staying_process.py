"""A process of ``staying.py``: asked to evaluate, it says what that cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from measured_process import Cost

SCRIPT = Path(__file__).with_name("staying.py")


class Staying:
    """A process from the beginning of the context to its end."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Give the arguments of ``staying.py``."""
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
            text=True,
        )

    def evaluate(self, k: int) -> Cost:
        """Evaluate once.

        Raises:
            SystemExit: the process has ended.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError(self._process.args)
        self._process.stdin.write(f"{k}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._process.args}: ended with {self._process.wait()}")
        found = json.loads(answer)
        return Cost(found["wall"], found["cpu"], found["peak"], "")

    def __enter__(self) -> Staying:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process."""
        self._process.communicate()
