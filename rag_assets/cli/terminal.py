"""What is printed where: results to stdout, progress and notes to stderr."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from rag_assets.cli.verbosity import Verbosity, verbosity

UNBOUNDED = 10_000
"""Columns of what is no terminal: a line of a table or a note is one line of the file."""

_BLANKS_AT_END = re.compile(r"[ \t]+(?=\n)")


def output() -> Console:
    """Return the console for results; plain lines, as wide as they are, into a pipe or a file."""
    width = _width(sys.stdout)
    plain: Any = None if sys.stdout.isatty() else _Lines(sys.stdout)
    return Console(file=plain, width=width, highlight=False, soft_wrap=False)


def messages() -> Console:
    """Return the console for everything that is not the result; silent with ``--quiet``."""
    return _stderr(quiet=verbosity() is Verbosity.QUIET)


def print_note(line: str | None) -> None:
    """Print one line of a note on stderr; nothing for None."""
    if line is not None:
        messages().print(f"note: {line}", markup=False, soft_wrap=True)


def log_lines() -> Console:
    """Return the console for what is logged."""
    return _stderr(quiet=False)


def _stderr(*, quiet: bool) -> Console:
    return Console(stderr=True, width=_width(sys.stderr), quiet=quiet, highlight=False)


def _width(stream: TextIO) -> int | None:
    """Return the width for a stream; None where the terminal or ``COLUMNS`` says it."""
    return None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else UNBOUNDED


def shown_path(path: Path) -> str:
    """Return a path as short as it can be typed from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


class _Lines:
    """A stream that leaves out the blanks with which rich fills the last cell of a row."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_BLANKS_AT_END.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a stream has)
        return getattr(self._stream, name)
