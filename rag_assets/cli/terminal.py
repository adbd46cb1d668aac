"""What is printed where: results to stdout, progress and notes to stderr.

All that a command prints goes through this module, which escapes what a terminal would obey:
names, tags, texts and answers of servers are data.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from rag_assets.cli.verbosity import Verbosity, verbosity
from rag_assets.plain_text import one_line, printable

UNBOUNDED = 10_000
"""Columns of what is no terminal: a line of a table or a note is one line of the file."""

_BLANKS_AT_END = re.compile(r"(?<![ \t])[ \t]+(?=\n)")


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line for people, on stdout or stderr."""
    click.echo(one_line(text), err=err)


def print_data(text: str) -> None:
    """Print what is for programs, and ends with its own line end.

    Into a pipe or a file it is written to the character; a terminal shows it to people.
    """
    click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)


def output() -> Console:
    """Return the console for results; plain lines, as wide as they are, into a pipe or a file."""
    width = _width(sys.stdout)
    plain: Any = None if sys.stdout.isatty() else _Lines(sys.stdout)
    return _Console(file=plain, width=width)


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
    return _Console(stderr=True, width=_width(sys.stderr), quiet=quiet)


def _width(stream: TextIO) -> int | None:
    """Return the width for a stream; None where the terminal or ``COLUMNS`` says it."""
    return None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else UNBOUNDED


def shown_path(path: Path) -> str:
    """Return a path as short as it can be typed from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


class _Console(Console):
    """A console for which text is data: it reads no markup and no emoji codes in it."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 (rich's)
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 (rich's)
        """Print; a string is one line."""
        lines = (one_line(part) if isinstance(part, str) else part for part in objects)
        super().print(*lines, **options)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 (rich's)
        """Return the cell of a table."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written; segments of control are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class _Lines:
    """A stream that leaves out the blanks with which rich fills the last cell of a row."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_BLANKS_AT_END.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a stream has)
        return getattr(self._stream, name)
